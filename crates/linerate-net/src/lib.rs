//! Header views, checksums and packet parsing
