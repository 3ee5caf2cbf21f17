//! What other processes see of an AF_XDP port: one that is killed leaves nothing behind, one that holds an interface
//! is named to the next, and a thread without rights is told which it lacks.

mod kernel;

use kernel::*;
use linerate_drivers::netif::{NetIf, veth};
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Set for the child: the port that it opens.
const CHILD: &str = "XSK_TEST_CHILD";
const HOLDER: &str = "the_process_that_has_a_port";

/// Runs a test of this binary again, in the calling thread's namespace, as the process that has the port.
fn child(test: &str, spec: &str) -> Child {
    let mut c = Command::new(std::env::current_exe().expect("a path"));
    c.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    c.env(CHILD, spec).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a child")
}

/// Not a test by itself: what the child does.
#[test]
fn the_process_that_has_a_port() {
    let Ok(spec) = std::env::var(CHILD) else { return };
    let pool = pool(512);
    let mut port = started(&spec, &pool, 1).expect("a port");
    port.set_promiscuous(true, false).expect("promiscuous");
    println!("\nready");
    let (mut rx, mut tx) = ends(&mut port);
    loop {
        send(&mut tx, &pool, &[frame(1, 60)]);
        receive(&mut rx, 1, 8);
    }
}

fn until_ready(c: &mut Child) {
    let out = BufReader::new(c.stdout.take().expect("piped"));
    let ready = out.lines().map_while(Result::ok).any(|l| l.contains("ready"));
    assert!(ready, "the child ended early");
}

/// Not a test by itself: what another child does, which has no other tests beside it, so that every descriptor and
/// mapping of its counts. Bug case 23, and queues that stay busy after a close.
#[test]
fn the_process_that_opens_and_closes() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let pool = pool(512);
    let cycle = |i: u32| {
        let mut a = started("xsk:a", &pool, 4).expect("a port of four queues");
        let mut b = started("xsk:b,queues=1,shared_umem=1", &pool, 1).expect("a port");
        let (mut rx, mut tx) = (b.take_rx(Q0).unwrap(), a.take_tx(Q0).unwrap());
        assert_eq!(send(&mut tx, &pool, &[frame(i, 60)]), 1);
        assert_eq!(receive(&mut rx, 1, 8), [frame(i, 60)]);
        drop((rx, tx));
        a.close().expect_err("started");
        a.stop().expect("stopped");
        a.close().expect("closed");
        // The other is dropped as it is.
    };
    (0..3).for_each(cycle);
    let held = holdings();
    assert_eq!(held.1, 0, "mapped sockets");
    (3..103).for_each(cycle);
    assert_eq!(holdings(), held, "descriptors, mapped sockets");
    assert_eq!(pool.counts().held, 0);
    pool.audit().expect("whole");
}

#[test]
fn opened_and_closed_a_hundred_times_nothing_is_left() {
    in_namespace("reopen", |_| {
        let ends = [["name", "a"], ["name", "b"]]
            .map(|n| [&n[..], &["numtxqueues", "4", "numrxqueues", "4"]].concat());
        let mut ip = Command::new("ip");
        ip.args(["link", "add"]).args(&ends[0]).args(["type", "veth", "peer"]).args(&ends[1]);
        assert!(ip.status().expect("iproute2").success());
        for name in ["a", "b"] {
            NetIf::by_name(name).unwrap().set_up(true).unwrap();
        }
        let out = child("the_process_that_opens_and_closes", "xsk:a").wait_with_output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
        assert!(!programs("a") && !programs("b"));
    });
}

/// The number of the program on an interface, from the kernel, as anybody sees it.
fn programs(name: &str) -> bool {
    let out = Command::new("ip").args(["-d", "link", "show", "dev", name]).output().expect("iproute2");
    String::from_utf8_lossy(&out.stdout).contains("xdp")
}

#[test]
fn a_killed_process_leaves_nothing_whenever_it_is_killed() {
    in_namespace("killed", |_| {
        let (x, y) = veth::create("a", "b").unwrap();
        x.set_up(true).unwrap();
        y.set_up(true).unwrap();
        for mode in ["native", "generic"] {
            let spec = format!("xsk:a,mode={mode}");
            let mut c = child(HOLDER, &spec);
            until_ready(&mut c);
            assert!(programs("a") && x.info().unwrap().promiscuity == 1);
            c.kill().unwrap();
            c.wait().unwrap();
            assert!(!programs("a"), "{mode}: a program is left");
            assert_eq!(x.info().unwrap().promiscuity, 0);
        }
        // At many points of its life.
        for i in 0..24u64 {
            let mut c = child(HOLDER, "xsk:a");
            thread::sleep(Duration::from_micros(200 + i * i * 120));
            c.kill().unwrap();
            c.wait().unwrap();
            assert!(!programs("a"), "killed at point {i}: a program is left");
        }
        // The queue can be had again, though the kernel takes its time to tear sockets down.
        let pool = pool(512);
        started("xsk:a", &pool, 1).unwrap();
    });
}

#[test]
fn who_holds_the_interface_is_named() {
    in_namespace("holder", |_| {
        let (x, y) = veth::create("a", "b").unwrap();
        x.set_up(true).unwrap();
        y.set_up(true).unwrap();
        let mut c = child(HOLDER, "xsk:a");
        until_ready(&mut c);
        let e = opened("xsk:a").unwrap_err();
        let text = format!("{e}; {}", e.hint());
        let named = format!("(pid {})", c.id());
        c.kill().unwrap();
        c.wait().unwrap();
        assert!(text.contains("has an XDP program already") && text.contains("linerate_xsk"), "{text}");
        assert!(text.contains(&named) && text.contains("end the process"), "{text}");
        opened("xsk:a").unwrap();
    });
}

#[test]
fn what_cannot_be_opened_is_one_error_with_its_mending() {
    in_namespace("bad input", |_| {
        let (x, _) = veth::create("a", "b").unwrap();
        x.set_up(true).unwrap();
        for (spec, what, mend) in [
            ("xsk:nosuch0", "no network interface \"nosuch0\"", "lo"),
            ("xsk:sixteen-letters-", "longer than 15 bytes", "15 characters"),
            ("xsk:a/b", "slash", "ip link"),
            ("xsk", "needs a device", "xsk:IFACE"),
            ("xsk:a,iface=b", "no key \"iface\"", "mode"),
            ("xsk:a,mode=fast", "wanted auto, native, generic or zero-copy", "mode=auto"),
            ("xsk:a,start_queue=7", "1 receive queues", "start_queue"),
            ("xsk:a,queues=2", "1 receive queues", "ethtool -L a"),
            ("xsk:a,frame_size=100", "frames of 100 bytes", "2048, 4096"),
        ] {
            let e = opened(spec).err().unwrap_or_else(|| panic!("{spec} was opened"));
            let (text, hint) = (e.to_string(), e.hint());
            assert!(text.contains(what) && hint.contains(mend), "{spec}: {text}; {hint}");
            assert!(!programs("a"), "{spec} left a program");
        }
        // In another namespace than the one it was opened in.
        let pool = pool(64);
        let mut port = opened("xsk:a").unwrap();
        port.configure(Default::default()).unwrap();
        port.rx_queue_setup(Q0, linerate_port::RxQueueConfig::new(&pool)).unwrap();
        port.tx_queue_setup(Q0, Default::default()).unwrap();
        let elsewhere = Namespace::new("bad input").unwrap();
        let (e, mut port) = elsewhere.run(move || (port.start().unwrap_err().to_string(), port));
        assert!(e.contains("in another network namespace"), "{e}");
        port.start().unwrap();
        drop(port);
        // Nobody's rights: only this thread's are given up.
        let denied = thread::spawn(|| {
            // SAFETY: changes the calling thread's user alone, not those of the process.
            let n = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(n, 0);
            let e = opened("xsk:a").unwrap_err();
            format!("{e}; {}", e.hint())
        });
        // The thread keeps the namespace of the one that made it.
        let denied = denied.join().unwrap();
        assert!(denied.contains("not permitted") && denied.contains("CAP_NET_RAW"), "{denied}");
    });
}
