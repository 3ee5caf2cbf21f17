//! `linerate perf` as a program runs it: the rows, their units, and what is refused.

use serde_json::Value;
use std::process::{Command, Output};

fn linerate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate")).args(args).output().expect("the program starts")
}

/// The rows of a quick run.
fn rows(args: &[&str]) -> Vec<Value> {
    let out = linerate(&[&["perf"], args, &["--quick", "--repeats", "3", "--json", "-"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("a list of rows")
}

fn has(rows: &[Value], keys: &[(&str, Value)]) -> bool {
    rows.iter().any(|r| keys.iter().all(|(k, v)| r.get(k) == Some(v)))
}

fn check_figures(rows: &[Value]) {
    for r in rows {
        let figure = |k: &str| r.get(k).unwrap_or_else(|| panic!("{r} has no {k}"));
        let [min, median, max] = ["min", "median", "max"].map(figure);
        if median.is_null() {
            // Only a state of the core pair may not have been met.
            assert!(r["pair"].is_string() && min.is_null() && max.is_null(), "{r}");
            continue;
        }
        let [min, median, max] = [min, median, max].map(|v| v.as_f64().expect("a number"));
        assert!(0.0 <= min && min <= median && median <= max, "{r}");
        // What takes a span of time may move nothing in one sample where cores are wanted by others.
        assert!(min > 0.0 || r["unit"] == "objects_per_second" && max > 0.0, "{r}");
        assert!(r["unit"].as_str().is_some_and(|u| u.contains("_per_")), "{r}");
    }
}

#[test]
fn rings_have_a_row_for_every_mode_size_and_layout() {
    let rows = rows(&["ring"]);
    check_figures(&rows);
    for mode in ["spsc", "mpmc", "rts", "hts", "mpmc-slot"] {
        for bulk in [1, 8, 32, 64, 128, 256] {
            for bytes in [8, 16] {
                for call in ["bulk", "burst"] {
                    let keys = [
                        ("bench", "ring".into()),
                        ("mode", mode.into()),
                        ("cores", 1.into()),
                        ("pair", Value::Null),
                        ("call", call.into()),
                        ("bulk", bulk.into()),
                        ("elem_bytes", bytes.into()),
                        ("unit", "cycles_per_element".into()),
                    ];
                    assert!(has(&rows, &keys), "{mode} {bulk} {bytes} {call}");
                }
            }
        }
        let empty = [("mode", mode.into()), ("call", "empty".into()), ("unit", "cycles_per_call".into())];
        assert!(has(&rows, &empty), "{mode}");
        if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
            for pair in ["near", "far"] {
                assert!(has(&rows, &[("mode", mode.into()), ("cores", 2.into()), ("pair", pair.into())]));
            }
        }
    }
}

#[test]
fn pools_and_buffers_have_the_rows_that_are_compared() {
    let pools = rows(&["mempool", "--only", "mempool ring"]);
    check_figures(&pools);
    for cache in [256, 0] {
        for bulk in [1, 4, 32] {
            let keys = [
                ("bench", "mempool".into()),
                ("cache", cache.into()),
                ("bulk", bulk.into()),
                ("unit", "cycles_per_object".into()),
            ];
            assert!(has(&pools, &keys), "{cache} {bulk}");
        }
    }
    let mbufs = rows(&["mbuf"]);
    check_figures(&mbufs);
    for op in [
        "alloc_free",
        "alloc_free_bulk32",
        "refcnt_from_1",
        "refcnt_from_2",
        "clone_free",
        "attach_detach",
        "prefree",
    ] {
        let keys = [("bench", "mbuf".into()), ("op", op.into()), ("unit", "cycles_per_mbuf".into())];
        assert!(has(&mbufs, &keys), "{op}");
    }
}

#[test]
fn bad_options_are_refused_with_a_reason() {
    for (args, code, said) in [
        (&["perf"][..], 2, "Usage"),
        (&["perf", "rings"], 2, "ring"),
        (&["perf", "ring", "--repeats", "0"], 2, "1..=1001"),
        (&["perf", "ring", "--cores", "0,0"], 1, "twice"),
        (&["perf", "ring", "--cores", "99999"], 1, "may run on"),
        (&["perf", "ring", "--cores", "x"], 2, "invalid"),
        (&["perf", "mbuf", "--json", "/nonexistent/rows.json"], 1, "/nonexistent/rows.json"),
        (&["perf", "ring", "--quick", "--only", "zzzz"], 1, "no row holds that text"),
    ] {
        let out = linerate(args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
        assert!(!text.contains("panicked"), "{args:?}: {text}");
    }
}

#[test]
fn a_table_that_cannot_be_written_is_an_error_and_a_reader_that_leaves_is_none() {
    use std::{fs::File, process::Stdio};
    let perf = |out: Stdio| {
        let args = ["perf", "mbuf", "--quick", "--repeats", "1", "--only", "alloc_free"];
        let mut c = Command::new(env!("CARGO_BIN_EXE_linerate"));
        c.args(args).stdout(out).stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    let full = File::options().write(true).open("/dev/full").expect("the device that is always full");
    let out = perf(full.into()).wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).starts_with("error: cannot write to standard output"));
    let mut child = perf(Stdio::piped());
    drop(child.stdout.take());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!((out.status.code(), out.stderr.len()), (Some(0), 0));
}
