//! `linerate ports` as a program runs it: what it lists, and what is refused.

use serde_json::Value;
use std::process::{Command, Output};

fn ports(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate")).arg("ports").args(args).output().expect("the program starts")
}

#[test]
fn every_driver_and_the_loopback_interface_are_listed() {
    let out = ports(&[]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    for word in ["null", "pcap", "ring:NAME", "xsk:IFACE", "packet:lo", "tap:NAME", "Huge pages", "Cores"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn the_json_agrees_with_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ports.json");
    let out = ports(&["--json", file.to_str().unwrap()]);
    assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).starts_with("Drivers"));
    let from_file: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let out = ports(&["--json=-"]);
    let v: Value = serde_json::from_slice(&out.stdout).expect("JSON and nothing else");
    assert_eq!(v["drivers"], from_file["drivers"]);
    let null = v["drivers"].as_array().unwrap().iter().find(|d| d["name"] == "null").unwrap();
    assert!(null["keys"].as_array().unwrap().iter().any(|k| k["name"] == "size"));
    let lo = v["interfaces"].as_array().unwrap().iter().find(|i| i["name"] == "lo").unwrap();
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
    assert_eq!(lo["mtu"].to_string(), mtu.trim());
    // It has neither a speed nor a driver, and says so.
    assert!(lo["speed_mbps"].is_null() && lo["driver"].is_null(), "{lo}");
    let cores = v["cores"].as_array().unwrap();
    let allowed = cores.iter().filter(|c| c["allowed"] == true).count();
    assert_eq!(allowed, linerate::mem::allowed_cores().unwrap().len());
}

#[test]
fn it_changes_nothing() {
    let names = || {
        let mut names: Vec<_> = linerate::drivers::netif::NetIf::all().unwrap();
        names.retain(|l| l.name == "lo");
        names
    };
    let before = names();
    assert!(ports(&[]).status.success());
    assert_eq!(names(), before);
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let out = ports(&["--json", "/no/such/folder/x.json"]);
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr.contains("/no/such/folder/x.json") && stderr.contains("hint:"), "{stderr}");
    assert!(out.stdout.is_empty());
    for args in [&["--jsn=-"][..], &["extra"], &["--json"]] {
        let out = ports(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(!out.stderr.is_empty());
    }
    // A pipe that nobody reads is no error.
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let mut child = child.arg("ports").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}
