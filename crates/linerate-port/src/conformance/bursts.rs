//! Bursts of every size in both directions, and a ring that fills up.

use super::{
    Case, Input, Output,
    bench::{Lab, Q0, Stop, bytes, ensure, failed, inapplicable, same},
};
use linerate_mbuf::{BURST_MAX, Burst};

pub(super) const CASES: &[Case] = &[
    ("receive bursts of any size", receive_any),
    ("receive fills what room a burst has", receive_room),
    ("transmit bursts of any size", transmit_any),
    ("a full transmit ring leaves the rest", transmit_full),
    ("a full receive ring keeps what it took", receive_full),
    ("idle calls free what was sent", idle_frees),
    ("frames arrive whole and in order", in_order),
];

const SIZES: [usize; 15] = [1, 2, 3, 4, 7, 8, 31, 32, 33, 63, 64, 100, 511, 512, 600];

/// Bug case 31: after a full burst the rest waited for an event; requests below four got nothing.
fn receive_any(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    for max in SIZES {
        for n in [1, 31, 33, 64, 100] {
            let mut burst = Burst::new();
            ensure!(b.poll(Q0, &mut burst, 0)? == 0, "a request for 0 packets got some");
            let offered = b.offer(Q0, n)?;
            ensure!(b.poll(Q0, &mut burst, 0)? == 0, "a request for 0 packets got some");
            b.take_offered(Q0, offered, n, max)?;
            if b.input == Input::Endless {
                let n = b.poll(Q0, &mut burst, max)?;
                ensure!(n == max.min(BURST_MAX), "an endless input gave {n} of {max} packets");
            }
        }
        if matches!(b.input, Input::Finite(_)) {
            b.stop(0)?;
            b.start()?;
        }
    }
    b.stop(0)
}

fn receive_room(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let old = b.frames(std::iter::repeat_n(60, BURST_MAX - 5));
    let mut burst = b.packets(&old)?;
    let offered = b.offer(Q0, 40)?;
    let coming = offered.as_ref().map_or_else(|| b.coming(Q0, 40), Vec::len);
    for _ in 0..50 {
        b.poll(Q0, &mut burst, 32)?;
        b.rig.settle();
    }
    ensure!(burst.len() == (old.len() + coming).min(BURST_MAX), "the burst has {} packets", burst.len());
    ensure!(b.poll(Q0, &mut burst, 32)? == 0 || coming < 5, "a full burst got a packet");
    let all: Vec<_> = burst.as_slice().iter().map(bytes).collect();
    same("in the burst before", &all[..old.len()], &old)?;
    let had = all.len() - old.len();
    burst.free_all();
    if let Some(want) = offered {
        same("appended", &all[old.len()..], &want[..had])?;
        let rest = b.receive(Q0, want.len() - had, 32)?;
        same("received later", &rest, &want[had..])?;
    }
    b.stop(0)
}

fn transmit_any(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let mut empty = Burst::new();
    ensure!(b.send_once(Q0, &mut empty)? == 0, "an empty burst was sent");
    for n in SIZES.into_iter().filter(|n| *n <= BURST_MAX) {
        let frames = b.some_frames(n);
        let mut burst = b.packets(&frames)?;
        if b.output != Output::Loopback {
            b.pass(Q0, &mut burst, &frames)?;
            continue;
        }
        let (mut got, mut idle) = (Vec::new(), 0);
        while got.len() < n {
            let took = b.send_once(Q0, &mut burst)?;
            let came = b.receive(Q0, took, 512)?;
            idle = if took + came.len() == 0 { idle + 1 } else { 0 };
            ensure!(idle < 100, "{} of {n} packets are never taken", burst.len());
            got.extend(came);
        }
        same("received", &got, &frames)?;
    }
    b.stop(0)
}

fn transmit_full(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let mut taken = Vec::new();
    let mut burst = Burst::new();
    while burst.is_empty() {
        if taken.len() > 3900 {
            b.stop(0)?;
            return inapplicable("it never was full");
        }
        let frames = b.some_frames(33);
        burst = b.packets(&frames)?;
        let n = b.send_once(Q0, &mut burst)?;
        taken.extend_from_slice(&frames[..n]);
    }
    // Full: the rest stays, call after call, and everything taken comes out once.
    if b.output == Output::Loopback {
        let left = burst.len();
        ensure!(b.send_once(Q0, &mut burst)? == 0, "a full ring took packets");
        let held = b.sender.counts().held as usize;
        ensure!(
            held == taken.len() + left,
            "{held} buffers are out, {} were taken and {left} left",
            taken.len()
        );
        let got = b.receive(Q0, taken.len(), 32)?;
        same("received", &got, &taken)?;
        let rest: Vec<_> = burst.as_slice().iter().map(bytes).collect();
        b.pass(Q0, &mut burst, &rest)?;
    } else {
        b.send(Q0, &mut burst)?;
    }
    b.flow(Q0, 20)?;
    b.stop(0)
}

fn receive_full(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    if b.input != Input::Injected {
        return inapplicable("nobody can fill its receive ring");
    }
    let mut went = Vec::new();
    for _ in 0..100 {
        let frames = b.some_frames(32);
        let n = b.rig.inject(Q0, &frames);
        went.extend_from_slice(&frames[..n]);
        if n < 32 {
            break;
        }
    }
    // What the wire took and the ring did not is missed, and counted; what comes is in order and whole.
    let got = b.receive(Q0, went.len(), 512)?;
    let mut rest = went.iter();
    ensure!(got.iter().all(|f| rest.any(|w| w == f)), "a frame came twice, out of order or changed");
    let missed = b.port().stats().rx_missed + b.port().stats().rx_nombuf;
    let lost = (went.len() - got.len()) as u64;
    ensure!(missed == lost, "{lost} frames were lost and {missed} are counted as missed or without a buffer");
    b.flow(Q0, 20)?;
    b.stop(0)
}

/// Bug case 31: completed buffers were reclaimed only in groups of 32, or only inside the next send.
fn idle_frees(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    if b.output == Output::Loopback {
        return inapplicable("what is sent waits to be received");
    }
    for n in [1, 31, 32, 33] {
        let frames = b.some_frames(n);
        let mut burst = b.packets(&frames)?;
        b.send(Q0, &mut burst)?;
        b.tx[0].flush();
        let mut on_the_way = b.tx[0].reclaim();
        for _ in 0..100 {
            if on_the_way == 0 {
                break;
            }
            b.tx[0].end_of_poll();
            b.rig.settle();
            on_the_way = b.tx[0].reclaim();
        }
        ensure!(on_the_way == 0, "{on_the_way} of {n} packets are never done");
        if b.output == Output::Collected {
            b.pass(Q0, &mut Burst::new(), &[])?;
        }
        let held = b.sender.counts().held;
        ensure!(held == 0, "{held} of {n} buffers are still out after idle calls");
    }
    b.stop(0)
}

fn in_order(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    for i in 0..40 {
        b.flow(Q0, 1 + (i * 7) % 61)?;
    }
    let Some(lane) = b.lanes.first() else { return failed("no queue") };
    if (lane.rx_packets, lane.tx_packets) == (0, 0) {
        return inapplicable("nothing moves");
    }
    b.stop(0)
}
