//! The life of a port: steps out of order, stopping in the middle of traffic, starting again, closing.

use super::{
    Case, Input, Output,
    bench::{Bench, Lab, Q0, Stop, ensure, inapplicable, whole},
};
use crate::{
    FlowId, FlowRule, MacAddress, Port, PortConfig, PortError, PortState, QueueId, RssConfig, RssTypes,
    RxQueueConfig, TxQueueConfig, state::PortStep,
};
use linerate_mbuf::{Burst, Mempool};

pub(super) const CASES: &[Case] = &[
    ("steps at the wrong time are refused", wrong_steps),
    ("what is missing keeps a port from starting", missing),
    ("queues that are out keep a port from stopping", queues_out),
    ("stop in the middle of traffic", stop_in_traffic),
    ("a hundred stops and starts", hundred),
    ("close with frames in flight", close_in_flight),
    ("a port dropped under its queues", dropped),
    ("queues are set up again", set_up_again),
    ("a finite input ends", finite),
];

/// A call of the API: the step that it is, its name, and how it ended.
type Call = (PortStep, &'static str, fn(&mut Port, &Mempool) -> Option<PortError>);

const CALLS: &[Call] = &[
    (PortStep::Configure, "configure", |p, _| p.configure(PortConfig::default()).err()),
    (PortStep::QueueSetup, "rx_queue_setup", |p, m| p.rx_queue_setup(Q0, RxQueueConfig::new(m)).err()),
    (PortStep::QueueSetup, "tx_queue_setup", |p, _| p.tx_queue_setup(Q0, TxQueueConfig::default()).err()),
    (PortStep::Start, "start", |p, _| p.start().err()),
    (PortStep::Stop, "stop", |p, _| p.stop().err()),
    (PortStep::Close, "close", |p, _| p.close().err()),
    (PortStep::Reset, "reset", |p, _| p.reset().err()),
    (PortStep::SetMtu, "set_mtu", |p, _| p.set_mtu(1400).err()),
    (PortStep::UseQueue, "take_rx", |p, _| p.take_rx(Q0).err()),
    (PortStep::UseQueue, "take_tx", |p, _| p.take_tx(Q0).err()),
    (PortStep::UseQueue, "set_rx_queue_running", |p, _| p.set_rx_queue_running(Q0, false).err()),
    (PortStep::UseQueue, "set_tx_queue_running", |p, _| p.set_tx_queue_running(Q0, false).err()),
    (PortStep::Adjust, "set_promiscuous", |p, _| p.set_promiscuous(true, true).err()),
    (PortStep::Adjust, "set_mac", |p, _| p.set_mac(MacAddress::peer(9), true).err()),
    (PortStep::Adjust, "set_vlan", |p, _| p.set_vlan(1, true).err()),
    (PortStep::Adjust, "set_rss", |p, _| p.set_rss(RssConfig::spread(1, 1, RssTypes::IPV4)).err()),
    (PortStep::Adjust, "create_flow", |p, _| p.create_flow(FlowRule::default()).err()),
    (PortStep::Adjust, "destroy_flow", |p, _| p.destroy_flow(FlowId(0)).err()),
    (PortStep::Adjust, "set_link", |p, _| p.set_link(false).err()),
];

fn in_state(lab: &Lab<'_>, state: PortState) -> Result<Bench, Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(1, pool)?;
    match state {
        PortState::Configured => b.configure(b.config())?,
        PortState::Started => {
            b.configure(b.config())?;
            b.start()?;
        }
        PortState::Closed => b.port().close()?,
        PortState::Opened | PortState::Removed => {}
    }
    Ok(b)
}

fn wrong_steps(lab: &Lab<'_>) -> Result<(), Stop> {
    for state in [PortState::Opened, PortState::Configured, PortState::Started, PortState::Closed] {
        let mut b = in_state(lab, state)?;
        let pool = b.pool.clone();
        for (step, name, call) in CALLS.iter().filter(|(step, ..)| !state.allows(*step)) {
            let before = (b.port().stats(), b.port().config().mtu, b.port().filters().clone());
            let error = call(b.port(), &pool);
            let named = matches!(
                &error,
                Some(PortError::WrongState { step: s, state: t, .. }) if (s, *t) == (step, state)
            );
            ensure!(named, "{name} on a port that is {state} gave {error:?}");
            ensure!(b.port().state() == state, "a refused {name} left the port {}", b.port().state());
            let after = (b.port().stats(), b.port().config().mtu, b.port().filters().clone());
            ensure!(before == after, "a refused {name} changed the port");
        }
        if state == PortState::Started {
            b.flow(Q0, 20)?;
            b.stop(0)?;
        }
    }
    Ok(())
}

fn missing(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(1, pool.clone())?;
    let too_many = b.port().info().limits.max_rx_queues.saturating_add(1);
    let none = PortConfig { rx_queues: 0, tx_queues: 0, ..Default::default() };
    let e = b.port().configure(none).err();
    ensure!(matches!(e, Some(PortError::Range { .. })), "no queue at all gave {e:?}");
    let many = PortConfig { rx_queues: too_many, ..Default::default() };
    let e = b.port().configure(many).err();
    ensure!(matches!(e, Some(PortError::Range { .. })), "{too_many} receive queues gave {e:?}");
    ensure!(b.port().state() == PortState::Opened, "a refused configuration changed the state");
    b.port().configure(PortConfig::default())?;
    let e = b.port().rx_queue_setup(QueueId(1), RxQueueConfig::new(&pool)).err();
    ensure!(matches!(e, Some(PortError::Range { .. })), "receive queue 1 of 1 gave {e:?}");
    let e = b.port().start().err();
    let rx = matches!(e, Some(PortError::QueueMissing { kind: "rx", queue: 0, .. }));
    ensure!(rx, "a start without a receive queue gave {e:?}");
    b.port().rx_queue_setup(Q0, RxQueueConfig::new(&pool))?;
    let e = b.port().start().err();
    let tx = matches!(e, Some(PortError::QueueMissing { kind: "tx", queue: 0, .. }));
    ensure!(tx, "a start without a transmit queue gave {e:?}");
    b.port().tx_queue_setup(Q0, TxQueueConfig::default())?;
    b.start()?;
    b.flow(Q0, 5)?;
    b.stop(0)
}

fn queues_out(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let e = b.port().stop().err();
    let both = matches!(&e, Some(PortError::QueuesOut { rx, tx, .. }) if (&rx[..], &tx[..]) == (&[0], &[0]));
    ensure!(both, "stop with both queues out gave {e:?}");
    let e = b.port().take_rx(Q0).err();
    let taken = matches!(e, Some(PortError::QueueTaken { kind: "rx", queue: 0, .. }));
    ensure!(taken, "taking a queue twice gave {e:?}");
    b.flow(Q0, 10)?;
    b.tx.clear();
    let e = b.port().stop().err();
    let one = matches!(&e, Some(PortError::QueuesOut { rx, tx, .. }) if (&rx[..], &tx[..]) == (&[0], &[]));
    ensure!(one, "stop with the receive queue out gave {e:?}");
    ensure!(b.port().state() == PortState::Started, "a refused stop changed the state");
    // Home and out again, and still in order.
    let tx = b.port().take_tx(Q0)?;
    b.tx.push(tx);
    b.flow(Q0, 10)?;
    b.stop(0)
}

/// Bug case 35: posted, waiting and sent buffers were forgotten by stop.
fn stop_in_traffic(lab: &Lab<'_>) -> Result<(), Stop> {
    for n in [1, 31, 32, 40, 64] {
        let mut b = lab.started(1)?;
        b.flow(Q0, n)?;
        b.offer(Q0, n)?;
        let mut kept = Burst::new();
        b.poll(Q0, &mut kept, n / 2)?;
        if b.output != Output::Loopback {
            let frames = b.some_frames(n);
            let mut burst = b.packets(&frames)?;
            b.send_once(Q0, &mut burst)?;
        }
        // What the application has stays its own; the rest goes home.
        let ours = kept.as_slice().iter().filter(|m| m.pool_name() == b.pool.name()).count();
        if ours == kept.len() {
            b.stop(ours as u32)?;
        } else {
            (b.rx, b.tx) = (Vec::new(), Vec::new());
            b.port().stop()?;
            whole(&b.pool.clone(), ours as u32, "after stop, receive pool")?;
        }
        drop(kept);
        if b.port().state() == PortState::Configured {
            b.start()?;
        }
        b.flow(Q0, n)?;
        b.stop(0)?;
    }
    Ok(())
}

fn hundred(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(1, pool)?;
    b.configure(b.config())?;
    for i in 0..100 {
        let cycle = |e: Stop| match e {
            Stop::Failed(why) => Stop::Failed(format!("cycle {i}: {why}")),
            other => other,
        };
        b.start().map_err(|e| cycle(e.into()))?;
        b.flow(Q0, 1 + i % 40).map_err(cycle)?;
        b.offer(Q0, i % 9).map_err(cycle)?;
        b.stop(0).map_err(cycle)?;
    }
    Ok(())
}

fn close_in_flight(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    b.offer(Q0, 50)?;
    if b.output != Output::Loopback {
        let frames = b.some_frames(33);
        let mut burst = b.packets(&frames)?;
        b.send_once(Q0, &mut burst)?;
    }
    b.stop(0)?;
    b.port().close()?;
    let e = b.port().close().err();
    ensure!(matches!(e, Some(PortError::WrongState { .. })), "a second close gave {e:?}");
    ensure!(b.port().events().len() < 256, "a closed port has events without end");
    Ok(())
}

/// The queues outlive their port: they do nothing any more, and what they hold goes home with them.
fn dropped(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    b.flow(Q0, 20)?;
    b.offer(Q0, 20)?;
    let frames = b.some_frames(5);
    let mut burst = b.packets(&frames)?;
    let Bench { mut rx, mut tx, rig, .. } = b;
    drop(rig);
    let mut got = Burst::new();
    for (rx, tx) in rx.iter_mut().zip(&mut tx) {
        ensure!(rx.rx_burst(&mut got, 32) == 0 && got.is_empty(), "a queue without a port receives");
        ensure!(tx.tx_burst(&mut burst) == 0 && burst.len() == 5, "a queue without a port sends");
        tx.flush();
        tx.end_of_poll();
    }
    Ok(())
}

fn set_up_again(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(2, pool)?;
    let queues = b.queues;
    for round in 0..4 {
        b.queues = if round == 2 && !b.rig.fixed_queues() { 1 } else { queues };
        let former = b.pool.clone();
        b.pool = lab.pool(4096, 2048);
        b.configure(b.config())?;
        whole(&former, 0, "after its queue was set up with another pool")?;
        // Once more, without configuring.
        for q in 0..b.queues {
            let pool = b.pool.clone();
            b.port().rx_queue_setup(QueueId(q), RxQueueConfig::new(&pool))?;
            b.port().tx_queue_setup(QueueId(q), TxQueueConfig::default())?;
        }
        b.start()?;
        for q in 0..b.queues {
            b.flow(QueueId(q), 10)?;
        }
        b.stop(0)?;
    }
    Ok(())
}

fn finite(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let Input::Finite(all) = b.input else { return inapplicable("its input does not end") };
    for round in 0..2 {
        if round > 0 {
            b.start()?;
        }
        ensure!(all == 0 || !b.rx[0].is_exhausted(), "the input has ended before it began");
        let got = b.receive(Q0, all, 7)?.len();
        ensure!(got == all, "{got} of {all} frames came");
        let mut more = Burst::new();
        for _ in 0..5 {
            ensure!(b.poll(Q0, &mut more, 32)? == 0, "more frames came than there are");
        }
        ensure!(b.rx[0].is_exhausted(), "the input does not say that it has ended");
        b.stop(0)?;
    }
    Ok(())
}
