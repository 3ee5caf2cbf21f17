//! Pages, cores, NUMA nodes and clocks
