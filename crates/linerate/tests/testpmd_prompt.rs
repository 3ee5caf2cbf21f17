//! The prompt of `linerate testpmd -i`, driven through a pipe and by files, as a script drives it.

mod testpmd_common;

use std::{
    fs,
    io::Write,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};
use testpmd_common::{Ran, frames, read_pcap, run, testpmd, write_pcap};

fn begin(args: &[&str]) -> Child {
    let mut command = testpmd();
    command.arg("-i").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Gives it these lines and then the end of its input.
fn session(args: &[&str], lines: &str) -> Ran {
    let mut child = begin(args);
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

/// It ended well, and every pool was whole.
fn well(ran: &Ran) -> &str {
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(ran.stdout.contains("0 held: nothing leaked"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("LEAKED"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("Bye...\n"), "{}", ran.stdout);
    &ran.stdout
}

const RINGS: &[&str] = &["--port=ring:r0", "--port=ring:r1"];
const NULLS: &[&str] = &["--port=null", "--port=null"];

#[test]
fn a_session_starts_shows_stops_and_starts_again_in_another_mode() {
    let ran = session(
        RINGS,
        "start tx_first 2\nwait 1\nshow fwd stats all\nshow port stats 0\nclear fwd stats all\nstop\n\
         set fwd macswap\nset burst 16\nstart\nstop\nshow fwd stats all\nquit\nshow port summary all\n",
    );
    let out = well(&ran);
    assert!(out.contains("io packet forwarding - ports=2 - cores=1 - streams=2 - burst=32"), "{out}");
    assert!(out.contains("macswap packet forwarding - ports=2 - cores=1 - streams=2 - burst=16"), "{out}");
    assert_eq!(out.matches("Accumulated forward statistics").count(), 4, "{out}");
    assert!(out.contains("NIC statistics for port 0") && !out.contains("NIC statistics for port 1"), "{out}");
    assert!(!out.contains("Link  "), "nothing after quit: {out}");
}

#[test]
fn the_tester_checks_every_frame_of_every_start() {
    let ran = session(&[], "start\nwait 1\nstop\nset fwd csum\nstart\nwait 1\nstop\nstart tx_first\n");
    let out = well(&ran);
    assert_eq!(out.matches("lost 0; corrupt 0, out of order 0, duplicated 0").count(), 2, "{out}");
    assert!(out.contains("the built-in tester would take the packets"), "{out}");
    let harmed = session(&["--inject=corrupt=50"], "start\nwait 1\nstop\n");
    assert_eq!(harmed.status, 1, "{}", harmed.stdout);
    assert!(harmed.stderr.starts_with("error: ") && harmed.stderr.contains("corrupt"), "{}", harmed.stderr);
}

#[test]
fn a_bad_line_says_what_is_wrong_and_the_session_goes_on() {
    let ran = session(
        NULLS,
        "shwo port\nshow prot\nset fwd macsawp\nshow port\n\u{1f600}\n# note\nstop\nhelp stop\n",
    );
    let out = well(&ran);
    for said in [
        "did you mean `show`?",
        "\"prot\" is not allowed here\n  show prot\n       ^^^^\n  hint: did you mean `port`? allowed: port, config, fwd",
        "\"macsawp\" is not a mode\n  set fwd macsawp\n          ^^^^^^^\n  hint: did you mean `macswap`?",
        "the command is not complete",
        "nothing is being forwarded\n  hint: `start` begins",
        "stop forwarding and print the report",
    ] {
        assert!(out.contains(said), "{said}\n{out}");
    }
}

// Bug case 37: a number cut to eight or sixteen bits acted on port 0.
#[test]
fn numbers_that_are_no_port_touch_none() {
    let mut lines = String::from("set promisc 1 on\n");
    for n in ["2", "256", "65535", "65536", "-1", "4294967296"] {
        for command in ["port stop", "port close", "show port stats", "clear port stats"] {
            lines += &format!("{command} {n}\n");
        }
        lines +=
            &format!("set promisc {n} on\nport config mtu {n} 1400\nmac_addr add {n} 02:00:00:00:00:77\n");
        lines += &format!("rx_vlan add 5 {n}\nflow flush {n}\nset link-down port {n}\n");
    }
    lines += "show port info 0\nshow port 0 mac\n";
    let ran = session(NULLS, &lines);
    let out = well(&ran);
    assert_eq!(out.matches("is not a port\n").count(), 6 * 10, "{out}");
    let info = out.split("Infos for port 0").nth(1).unwrap();
    for unchanged in ["State: started", "MTU: 1500", "Number of MAC address added: 1", "Link status: up"] {
        assert!(info.contains(unchanged), "{unchanged}\n{info}");
    }
}

#[test]
fn what_needs_a_stop_says_so_and_changes_nothing() {
    let ran = session(
        &["--port=null", "--port=null", "--total-num-mbufs=8000"],
        "start\nstart\nset fwd mac\nset burst 1\nport stop all\nport config mtu 0 1400\nport config all rxq 2\n\
         stop\nstart\nstop\nport stop 1\nstart\nport config mtu 1 1400\nport start 1\nshow port info 1\n\
         port stop all\nport config all rxq 2\nport config all txq 2\nport start all\nstart\nstop\n",
    );
    let out = well(&ran);
    assert_eq!(out.matches("packets are being forwarded\n  hint: `stop` first").count(), 4, "{out}");
    assert_eq!(out.matches("io packet forwarding").count(), 3, "{out}");
    assert!(out.contains("port 0 is started\n  hint: `port stop all` first"), "{out}");
    assert!(out.contains("port 1 is not started\n  hint: `port start 1` first"), "{out}");
    assert!(out.contains("MTU: 1400"), "{out}");
    assert!(out.contains("streams=4"), "{out}");
}

#[test]
fn flow_rules_are_made_counted_listed_and_undone() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let sent = frames(50);
    write_pcap(&from, &sent);
    let spec = format!("--port=pcap:rx_pcap={},tx_pcap={}", from.display(), to.display());
    let ran = session(
        &[&spec],
        "flow create 0 ingress pattern eth / ipv4 / udp src is 7 / end actions drop / count / end\n\
         flow create 0 pattern eth / ipv4 src is 1.2.3 / end actions drop / end\n\
         flow validate 0 pattern end actions queue index 5 / end\n\
         flow list 0\nstart\nwait 10\nstop\nflow query 0 0 count\nflow destroy 0 rule 4294967295\n\
         flow destroy 0 rule 0\nflow list 0\nset fwd rxonly\nclear port stats all\n",
    );
    let out = well(&ran);
    for said in [
        "Flow rule #0 created",
        "1.2.3",
        "queue 5; there are 0 to 0",
        "\n hits: 1\n",
        "no rule 4294967295",
        "Flow rule #0 destroyed",
        "NIC statistics for port 0 cleared",
    ] {
        assert!(out.contains(said), "{said}\n{out}");
    }
    let kept: Vec<_> = sent.iter().enumerate().filter(|(i, _)| *i != 7).map(|(_, f)| f.clone()).collect();
    assert_eq!(read_pcap(&to), kept);
}

#[test]
fn command_files_run_first_and_load_goes_on_after_a_bad_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let inner = path("inner", "bad line\r\nset fwd mac\r\n");
    let endless = dir.path().join("endless").display().to_string();
    fs::write(&endless, format!("load {endless}\n")).unwrap();
    let shown = path("shown", &format!("# first\nload {inner}\nload /no/such/file\nload {endless}"));
    let hidden = path("hidden", "set burst 8\n");
    let files = [format!("--cmdline-file={shown}"), format!("--cmdline-file-noecho={hidden}")];
    let ran = session(&[NULLS, &[&files[0], &files[1], "--auto-start"]].concat(), "show config rxtx\n");
    let out = well(&ran);
    assert!(out.starts_with(&format!("# first\nload {inner}\n\"bad\" is not allowed here")), "{out}");
    assert!(out.contains("/no/such/file: ") && out.contains("files load each other"), "{out}");
    assert!(!out.contains("set burst 8"), "{out}");
    assert!(out.contains("mac packet forwarding - ports=2 - cores=1 - streams=2 - burst=8"), "{out}");
    let missing = run(&["-i", "--port=null", "--cmdline-file=/no/such/file"]);
    assert_eq!(missing.status, 1);
    assert!(missing.stderr.contains("--cmdline-file /no/such/file") && missing.stderr.contains("hint"));
}

#[test]
fn options_that_do_not_go_with_a_prompt_are_refused() {
    for bad in [
        &["-i", "--tx-first"][..],
        &["-i", "--stats-period=1"],
        &["-i", "--duration=1"],
        &["-i", "--json=-"],
        &["--auto-start"],
        &["--cmdline-file=x"],
    ] {
        let ran = run(bad);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{bad:?}: {}", ran.stderr);
    }
}

#[test]
fn ctrl_c_stops_reports_and_ends() {
    let mut child = begin(&[RINGS, &["--auto-start"]].concat());
    let keeps_it_open = child.stdin.take();
    thread::sleep(Duration::from_millis(500));
    let from = Instant::now();
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let ran = Ran::of(child.wait_with_output().unwrap());
    drop(keeps_it_open);
    assert!(well(&ran).contains("Accumulated forward statistics"), "{}", ran.stdout);
    assert!(from.elapsed() < Duration::from_secs(20));
}
