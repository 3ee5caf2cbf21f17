//! Pages on the machine at hand, whatever it has: with or without huge pages, as root or not.

use super::*;
use crate::skip;

/// Huge pages that this test may take, or a line that says the test was not run.
fn huge_pages_or_skip(test: &str, size: HugeSize, want: u64) -> bool {
    let counts = HugeCounts::read(size, None);
    if counts.available < want {
        skip(test, &format!("{want} x {size} huge pages wanted, {} available", counts.available));
        return false;
    }
    true
}

/// Writes a pattern through the whole range and reads it back.
fn use_all(pages: &Pages) {
    let step = 509;
    for at in (0..pages.len()).step_by(step) {
        // SAFETY: inside the pages, which only this test knows.
        unsafe { pages.base().add(at).write(at as u8) };
    }
    for at in (0..pages.len()).step_by(step) {
        // SAFETY: as above.
        assert_eq!(unsafe { pages.base().add(at).read() }, at as u8);
    }
}

fn resident(pages: &Pages) -> bool {
    let small = rustix::param::page_size();
    let mut map = vec![0u8; pages.len() / small];
    // SAFETY: our own range, one byte a page to write to.
    let rc = unsafe { libc::mincore(pages.base().as_ptr().cast(), pages.len(), map.as_mut_ptr()) };
    rc == 0 && map.iter().all(|r| r & 1 == 1)
}

#[test]
fn auto_always_gives_memory_and_one_line() {
    for bytes in [1, 4096, 100_000, 3 << 20, 38 << 20] {
        let pages = PageRequest::new(bytes).allocate().unwrap();
        assert!(pages.len() >= bytes && pages.len().is_multiple_of(pages.page_size()));
        assert_eq!(pages.base().as_ptr().addr() % pages.page_size(), 0);
        assert!(resident(&pages), "populated");
        use_all(&pages);
        let report = pages.report();
        assert!(report.starts_with("memory: ") && !report.contains('\n'), "{report}");
        println!("{report}");
    }
}

#[test]
fn huge_pages_are_taken_and_given_back() {
    if !huge_pages_or_skip("huge_pages_are_taken_and_given_back", HugeSize::Size2M, 8) {
        return;
    }
    let pages = PageRequest::new(5 << 20).prefer(PagePreference::Huge2M).allocate().unwrap();
    assert_eq!((pages.kind(), pages.len(), pages.page_size()), (PageKind::Huge2M, 6 << 20, 2 << 20));
    assert_eq!(pages.base().as_ptr().addr() % (2 << 20), 0);
    use_all(&pages);
    // The same memory through the descriptor: a second mapping sees what the first wrote.
    let fd = pages.fd().unwrap();
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let other = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            pages.len(),
            rustix::mm::ProtFlags::READ,
            rustix::mm::MapFlags::SHARED,
            fd,
            0,
        )
    }
    .unwrap();
    // SAFETY: both mappings are readable at this offset.
    assert_eq!(unsafe { other.cast::<u8>().add(509).read() }, unsafe { pages.base().add(509).read() });
    // SAFETY: the mapping just made.
    unsafe { rustix::mm::munmap(other, pages.len()) }.unwrap();
    assert!(pages.report().contains("3 x 2 MiB huge pages"), "{}", pages.report());
}

#[test]
fn running_out_of_huge_pages_is_an_error_with_need_have_and_command() {
    // More than any machine keeps; the refusal comes before a page is touched.
    let need = HugeCounts::read(HugeSize::Size2M, None).total + 1000;
    let request = PageRequest::new((need << 21) as usize).prefer(PagePreference::Huge2M);
    match request.allocate().unwrap_err() {
        err @ MemError::NoHugePages { .. } => {
            let (text, hint) = (err.to_string(), err.hint());
            assert!(text.contains(&format!("{need} needed")), "{text}");
            assert!(hint.contains("sysctl -w vm.nr_hugepages="), "{hint}");
        }
        MemError::HugeUnsupported { .. } => skip("the counts", "no huge pages in this kernel"),
        // Overcommitted huge pages (vm.nr_overcommit_hugepages) can fail otherwise, never differently.
        other => panic!("{other}"),
    }
}

#[test]
fn without_free_huge_pages_auto_falls_back_and_says_so() {
    // A promise takes the pages from everybody without touching one, so other tests miss them for a moment only.
    let mut promised = Vec::new();
    loop {
        let left = (HugeCounts::read(HugeSize::Size2M, None).available << 21) as usize;
        if left == 0 || promised.len() == 8 {
            break;
        }
        let Ok(file) = mapping::memory_file(left, Some(HugeSize::Size2M)) else { break };
        if mapping::promise_huge_pages(&file, left).is_ok() {
            promised.push(file);
        }
    }
    let insisted = PageRequest::new(4 << 20).prefer(PagePreference::Huge2M).allocate();
    let auto = PageRequest::new(4 << 20).allocate().unwrap();
    drop(promised);
    use_all(&auto);
    match insisted {
        Err(err @ MemError::NoHugePages { .. }) if !matches!(auto.kind(), PageKind::Huge2M) => {
            assert!(err.to_string().contains("2 MiB huge pages free: 2 needed"), "{err}");
            assert!(auto.report().contains("no 2 MiB huge pages free: 2 needed"), "{}", auto.report());
        }
        Err(MemError::HugeUnsupported { .. }) => {
            assert!(auto.report().contains("no 2 MiB huge pages on this"))
        }
        Err(other @ MemError::NoHugePages { .. }) => {
            skip("the fall-back", &format!("pages came back: {other}"))
        }
        Err(other) => panic!("{other}"),
        Ok(_) => skip("the fall-back", "others gave huge pages back, or the kernel makes more (overcommit)"),
    }
}

#[test]
fn one_gibibyte_pages_or_a_named_error() {
    match PageRequest::new(1 << 30).prefer(PagePreference::Huge1G).allocate() {
        Ok(pages) => assert_eq!((pages.kind(), pages.len()), (PageKind::Huge1G, 1 << 30)),
        Err(err @ (MemError::NoHugePages { .. } | MemError::HugeUnsupported { .. })) => {
            assert!(err.to_string().contains("1 GiB"), "{err}");
            skip("1 GiB pages in use", &format!("{err}; {}", err.hint()));
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn which_sizes_suit() {
    let suits = |bytes, size| PageRequest::new(bytes).suits(size);
    assert!(!suits(1 << 20, HugeSize::Size1G) && !suits((1 << 30) + 1, HugeSize::Size1G));
    assert!(suits(1 << 30, HugeSize::Size1G) && suits((1 << 30) - (64 << 20), HugeSize::Size1G));
    assert!(!suits(4096, HugeSize::Size2M) && suits(1 << 19, HugeSize::Size2M));
}

#[test]
fn ordinary_small_and_shareable() {
    let small = PageRequest::new(3 << 20).prefer(PagePreference::Small).allocate().unwrap();
    assert_eq!((small.kind(), small.page_size()), (PageKind::Ordinary, rustix::param::page_size()));
    assert!(small.report().contains("KiB pages") && small.report().contains("TLB"), "{}", small.report());
    let shared =
        PageRequest::new(3 << 20).prefer(PagePreference::Ordinary).shareable(true).allocate().unwrap();
    assert!(shared.fd().is_some());
    for pages in [small, shared] {
        assert!(resident(&pages));
        use_all(&pages);
    }
}

#[test]
fn ordinary_pages_are_joined_where_the_kernel_does_that() {
    let modes = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let pages = PageRequest::new(16 << 20).prefer(PagePreference::Ordinary).allocate().unwrap();
    use_all(&pages);
    println!("{} (transparent huge pages: {})", pages.report(), modes.trim());
    if modes.contains("[never]") || modes.is_empty() {
        skip("joining", "the kernel is told not to");
    } else if pages.kind() != PageKind::Transparent {
        // Memory in pieces is a legal reason; then it must at least be said.
        assert!(pages.report().contains("TLB"));
        skip("joining", "the kernel found no whole pages");
    } else {
        assert_eq!(pages.page_size(), transparent_size());
    }
}

#[test]
fn alignment_is_kept_in_every_kind() {
    for preference in [PagePreference::Auto, PagePreference::Ordinary, PagePreference::Small] {
        for align in [1, 64, 1 << 16, 1 << 24, 1 << 30] {
            let pages = PageRequest::new(600_000).prefer(preference).align_to(align).allocate().unwrap();
            assert_eq!(pages.base().as_ptr().addr() % align, 0);
            use_all(&pages);
        }
    }
}

#[test]
fn senseless_requests_are_refused() {
    assert!(matches!(PageRequest::new(0).allocate(), Err(MemError::BadSize { bytes: 0 })));
    assert!(matches!(PageRequest::new(usize::MAX).allocate(), Err(MemError::BadSize { .. })));
    for align in [0, 3, 1 << 31, usize::MAX] {
        assert!(matches!(PageRequest::new(1).align_to(align).allocate(), Err(MemError::BadAlign { .. })));
    }
}

#[test]
fn more_than_the_machine_has_is_an_error_and_not_a_killed_process() {
    for preference in [PagePreference::Auto, PagePreference::Ordinary, PagePreference::Small] {
        match PageRequest::new(1 << 50).prefer(preference).allocate().unwrap_err() {
            err @ MemError::OutOfMemory { need, have, .. } => {
                assert!(need >= 1 << 50 && have < need);
                assert!(!err.hint().is_empty());
            }
            MemError::Os { call: "mmap", .. } | MemError::FileSizeLimit { .. } => {}
            other => panic!("{other}"),
        }
    }
}

#[test]
fn the_node_is_kept_or_refused() {
    let online = online_nodes();
    let Some(first) = online.first() else {
        skip("the_node_is_kept_or_refused", "this kernel does not tell its nodes");
        return;
    };
    for preference in [PagePreference::Auto, PagePreference::Ordinary] {
        match PageRequest::new(3 << 20).prefer(preference).on_node(NumaNode(first)).allocate() {
            Ok(pages) => {
                assert!(pages.node().is_none_or(|node| node == NumaNode(first)));
                use_all(&pages);
            }
            // A node of processors without memory, or a container that forbids the call, is refused by name.
            Err(err @ MemError::NodeRefused { .. }) => {
                skip("a node of choice", &format!("node {first}: {err}"))
            }
            Err(other) => panic!("{other}"),
        }
    }
    let absent = NumaNode(online.iter().last().unwrap() + 1);
    let err = PageRequest::new(4096).on_node(absent).allocate().unwrap_err();
    assert!(matches!(err, MemError::NodeRefused { node, .. } if node == absent), "{err}");
    assert!(err.hint().contains(&online.to_string()), "{}", err.hint());
}

#[test]
fn contains_knows_its_edges() {
    let pages = PageRequest::new(4096).prefer(PagePreference::Small).allocate().unwrap();
    let (base, len) = (pages.base(), pages.len());
    let at = |offset: isize| NonNull::new(base.as_ptr().wrapping_offset(offset)).unwrap();
    assert!(
        pages.contains(base, len)
            && pages.contains(at(len as isize), 0)
            && pages.contains(at(len as isize - 1), 1)
    );
    assert!(
        !pages.contains(base, len + 1) && !pages.contains(at(-1), 1) && !pages.contains(at(1), usize::MAX)
    );
    assert!(!pages.contains(at(len as isize), 1));
}
