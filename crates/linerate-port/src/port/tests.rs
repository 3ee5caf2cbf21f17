//! What the port model does around a driver, seen from the calls that the driver gets.

use crate::{
    FlowAction, FlowItem, FlowRule, MacAddress, Port, PortConfig, PortError, PortEvent, PortState, QueueId,
    RssConfig, RssTypes, RxQueueConfig, TxQueueConfig,
    conformance::script::{Bug, Script, SharedWorld},
    state::PortStep,
};
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::Clock;

const Q0: QueueId = QueueId(0);

struct Bench {
    port: Port,
    world: SharedWorld,
    pool: Mempool,
}

impl Bench {
    fn opened() -> Self {
        let world = SharedWorld::default();
        let port = Script::open(Bug::None, world.clone(), Clock::real()).unwrap();
        Bench { port, world, pool: Mempool::builder("port", 1024).cache(0).build().unwrap() }
    }

    fn configured() -> Self {
        let mut b = Self::opened();
        b.set_up().unwrap();
        b.calls();
        b
    }

    fn set_up(&mut self) -> Result<(), PortError> {
        self.port.configure(PortConfig::default())?;
        self.port.rx_queue_setup(Q0, RxQueueConfig::new(&self.pool))?;
        self.port.tx_queue_setup(Q0, TxQueueConfig::default())
    }

    fn fail(&self, call: &'static str) {
        self.world.lock().unwrap().fail = Some(call);
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.world.lock().unwrap().calls)
    }
}

#[test]
fn the_table_of_steps() {
    use PortState::*;
    let table = [
        (PortStep::Configure, vec![Opened, Configured]),
        (PortStep::QueueSetup, vec![Configured]),
        (PortStep::SetMtu, vec![Configured]),
        (PortStep::Start, vec![Configured]),
        (PortStep::Stop, vec![Started]),
        (PortStep::UseQueue, vec![Started]),
        (PortStep::Adjust, vec![Configured, Started]),
        (PortStep::Reset, vec![Opened, Configured]),
        (PortStep::Close, vec![Opened, Configured, Removed]),
    ];
    for (step, states) in table {
        let allowed: Vec<_> = PortState::ALL.into_iter().filter(|s| s.allows(step)).collect();
        assert_eq!(allowed, states, "{step}");
    }
}

#[test]
fn starts_and_stops_in_order_and_once() {
    let mut b = Bench::configured();
    b.port.start().unwrap();
    assert_eq!(b.calls(), ["start", "tx start", "rx start"]);
    // A queue that was stopped alone is not stopped again, and is started with the port.
    b.port.set_rx_queue_running(Q0, false).unwrap();
    b.port.set_rx_queue_running(Q0, false).unwrap();
    assert_eq!(b.calls(), ["rx stop"]);
    b.port.stop().unwrap();
    assert_eq!(b.calls(), ["tx stop", "stop"]);
    b.port.start().unwrap();
    b.port.stop().unwrap();
    b.port.close().unwrap();
    assert_eq!(b.calls(), ["start", "tx start", "rx start", "rx stop", "tx stop", "stop", "close"]);
    drop(b.port);
    assert!(b.world.lock().unwrap().calls.is_empty());
}

#[test]
fn a_port_that_is_only_dropped_is_stopped_and_closed() {
    let mut b = Bench::configured();
    b.port.start().unwrap();
    let rx = b.port.take_rx(Q0).unwrap();
    b.calls();
    drop(b.port);
    // The queue that is out is not touched behind its owner's back.
    assert_eq!(std::mem::take(&mut b.world.lock().unwrap().calls), ["tx stop", "stop", "close"]);
    assert!(b.pool.counts().held > 0);
    drop(rx);
    assert_eq!(b.world.lock().unwrap().calls, ["rx stop"]);
    assert_eq!(b.pool.counts().held, 0);
}

#[test]
fn a_start_that_fails_leaves_everything_stopped() {
    for (call, after) in [
        ("start", vec!["start"]),
        ("tx start", vec!["start", "tx start", "stop"]),
        ("rx start", vec!["start", "tx start", "rx start", "tx stop", "stop"]),
    ] {
        let mut b = Bench::configured();
        b.fail(call);
        assert!(matches!(b.port.start(), Err(PortError::System { .. })), "{call}");
        assert_eq!(b.calls(), after, "{call}");
        assert_eq!((b.port.state(), b.pool.counts().held), (PortState::Configured, 0), "{call}");
        b.port.start().unwrap();
        b.port.stop().unwrap();
    }
}

#[test]
fn a_driver_that_refuses_leaves_the_former() {
    let mut b = Bench::configured();
    for (call, step) in [
        (
            "configure",
            (|b| b.port.configure(PortConfig { mtu: 900, ..Default::default() })) as fn(&mut Bench) -> _,
        ),
        ("rx_queue", |b| b.port.rx_queue_setup(Q0, RxQueueConfig::new(&b.pool))),
        ("tx_queue", |b| b.port.tx_queue_setup(Q0, TxQueueConfig::default())),
        ("set_mtu", |b| b.port.set_mtu(900)),
        ("set_rss", |b| b.port.set_rss(RssConfig::spread(1, 128, RssTypes::IPV4))),
        ("set_link", |b| b.port.set_link(false)),
    ] {
        b.fail(call);
        assert!(matches!(step(&mut b), Err(PortError::System { .. })), "{call}");
        assert_eq!((b.port.config().mtu, b.port.config().rss.is_none()), (1500, true), "{call}");
    }
    b.port.start().unwrap();
    b.port.stop().unwrap();
}

#[test]
fn a_queue_that_cannot_be_started_again_is_an_event() {
    let mut b = Bench::configured();
    b.port.start().unwrap();
    let mut rx = b.port.take_rx(Q0).unwrap();
    b.port.events();
    b.port.set_rx_queue_running(Q0, false).unwrap();
    assert_eq!(rx.rx_burst(&mut Burst::new(), 32), 0);
    b.fail("rx start");
    b.port.set_rx_queue_running(Q0, true).unwrap();
    assert_eq!((rx.rx_burst(&mut Burst::new(), 32), rx.is_running()), (0, false));
    let events = b.port.events();
    assert!(matches!(&events[..], [PortEvent::QueueError { kind: "rx", queue: Q0, .. }]), "{events:?}");
    b.port.set_rx_queue_running(Q0, true).unwrap();
    rx.rx_burst(&mut Burst::new(), 32);
    assert!(rx.is_running());
    // A wish that is still open when the queue comes home is carried out there.
    b.port.set_rx_queue_running(Q0, false).unwrap();
    b.calls();
    drop(rx);
    assert_eq!(b.calls(), ["rx stop"]);
    b.port.stop().unwrap();
    assert_eq!(b.calls(), ["tx stop", "stop"]);
}

// Bug case 37: 65535 descriptors wrapped to 0 and became the minimum.
#[test]
fn descriptors_are_rounded_up_and_do_not_wrap() {
    for (wanted, got) in
        [(0, 512), (1, 64), (64, 64), (65, 96), (4095, 4096), (4097, 4096), (65504, 4096), (65535, 4096)]
    {
        let mut b = Bench::configured();
        let rx = RxQueueConfig { descriptors: wanted, ..RxQueueConfig::new(&b.pool) };
        b.port.rx_queue_setup(Q0, rx).unwrap();
        b.port.tx_queue_setup(Q0, TxQueueConfig { descriptors: wanted, ..Default::default() }).unwrap();
        assert_eq!(b.world.lock().unwrap().descriptors, (got, got), "{wanted}");
    }
}

#[test]
fn a_removed_device_can_be_stopped_and_closed_and_nothing_else() {
    for polled in [false, true] {
        let mut b = Bench::configured();
        b.port.start().unwrap();
        let rx = b.port.take_rx(Q0).unwrap();
        b.port.events();
        b.world.lock().unwrap().gone = true;
        if polled {
            assert_eq!(b.port.events(), [PortEvent::Removed]);
            assert_eq!(b.port.events(), []);
        } else {
            b.port.link();
        }
        for e in
            [b.port.take_tx(Q0).err(), b.port.set_promiscuous(true, true).err(), b.port.set_mtu(1500).err()]
        {
            assert!(matches!(e, Some(PortError::Removed { .. })), "{e:?}");
        }
        assert_eq!(b.port.state(), PortState::Removed);
        assert!(matches!(b.port.stop(), Err(PortError::QueuesOut { .. })));
        assert!(matches!(b.port.close(), Err(PortError::QueuesOut { .. })));
        drop(rx);
        b.calls();
        if polled {
            b.port.stop().unwrap();
            assert!(matches!(b.port.stop(), Err(PortError::Removed { .. })));
        }
        for e in [b.port.start().err(), b.port.reset().err(), b.port.configure(PortConfig::default()).err()] {
            assert!(matches!(e, Some(PortError::Removed { .. })), "{e:?}");
        }
        b.port.close().unwrap();
        assert_eq!(b.calls(), ["rx stop", "tx stop", "stop", "close"]);
        assert_eq!(b.pool.counts().held, 0);
    }
}

#[test]
fn a_reset_starts_over_and_a_failed_one_leaves_no_queue() {
    let mut b = Bench::configured();
    b.port.set_mac(MacAddress::peer(5), true).unwrap();
    b.fail("reset");
    assert!(b.port.reset().is_err());
    assert!(matches!(b.port.start(), Err(PortError::QueueMissing { kind: "rx", queue: 0, .. })));
    b.set_up().unwrap();
    b.port.start().unwrap();
    b.port.stop().unwrap();
    b.port.events();
    b.port.reset().unwrap();
    assert_eq!(b.port.events(), [PortEvent::Reset]);
    assert_eq!((b.port.state(), b.port.filters().mac.len()), (PortState::Opened, 0));
    assert!(b.port.start().is_err());
    b.set_up().unwrap();
    b.port.start().unwrap();
}

#[test]
fn a_rule_keeps_its_queue() {
    let mut b = Bench::opened();
    b.port.configure(PortConfig { rx_queues: 4, ..Default::default() }).unwrap();
    let rule = FlowRule {
        pattern: vec![FlowItem::Eth { dst: None, src: None, ethertype: None }],
        actions: vec![FlowAction::Queue(3)],
        ..Default::default()
    };
    let id = b.port.create_flow(rule.clone()).unwrap();
    let e = b.port.configure(PortConfig::default()).unwrap_err();
    assert!(e.to_string().contains("flow rule 0: queue 3; there are 0 to 0; destroy it first"), "{e}");
    assert_eq!(b.port.config().rx_queues, 4);
    b.port.destroy_flow(id).unwrap();
    b.port.configure(PortConfig::default()).unwrap();
    assert!(matches!(b.port.create_flow(rule), Err(PortError::Flow { .. })));
}
