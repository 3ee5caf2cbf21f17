//! A limit on file sizes holds for files in memory and is told by a signal that ends the process: it must become
//! anonymous memory or an error instead. A file of its own, because the limit is the whole process's.

use linerate_mem::{MemError, PagePreference, PageRequest};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_file_size_limit_is_an_error_or_anonymous_memory_and_never_a_signal() {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(100_000), maximum }).unwrap();
    for preference in [PagePreference::Auto, PagePreference::Ordinary, PagePreference::Small] {
        let pages = PageRequest::new(3 << 20).prefer(preference).allocate().unwrap();
        assert!(pages.fd().is_none() && pages.len() >= 3 << 20);
        // SAFETY: inside the pages, which nobody else knows.
        unsafe { pages.base().add(pages.len() - 1).write(1) };
    }
    for request in
        [PageRequest::new(3 << 20).prefer(PagePreference::Huge2M), PageRequest::new(3 << 20).shareable(true)]
    {
        let err = request.allocate().unwrap_err();
        assert!(matches!(err, MemError::FileSizeLimit { have: 100_000, .. }), "{err}");
        assert!(err.hint().contains("ulimit -f"));
    }
}
