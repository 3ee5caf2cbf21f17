//! Queues one by one: several of them, stopped and started while the port runs, on threads of their own; and
//! the program in the receive path.

use super::{
    Case, Input, Output,
    bench::{Lab, Q0, Stop, bytes, ensure, inapplicable, same},
};
use crate::{Capabilities, Frame, PortError, QueueId, RxQueueConfig, TxQueueConfig, Verdict};
use linerate_mbuf::Burst;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
};

pub(super) const CASES: &[Case] = &[
    ("several queues keep apart", several),
    ("a queue stops and starts at run time", switch),
    ("a queue starts later", deferred),
    ("queues run on threads of their own", threads),
    ("a program decides in the receive path", program),
];

fn several(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(4)?;
    if b.queues < 2 {
        return inapplicable("it has one queue");
    }
    let all: Vec<QueueId> = (0..b.queues).map(QueueId).collect();
    // Offered to all before any is received, so that a frame on the wrong queue shows.
    for round in 0..3 {
        let mut offered = Vec::new();
        for q in &all {
            offered.push(b.offer(*q, 10 + 3 * q.index() + round)?);
        }
        for (q, o) in all.iter().zip(offered).rev() {
            b.take_offered(*q, o, 10 + 3 * q.index() + round, 32)?;
        }
        for q in &all {
            b.flow(*q, 5 + q.index())?;
        }
    }
    let x = b.port().xstats();
    for q in &all {
        let of = |kind: &str| {
            let name = format!("{kind}_q{q}_packets");
            x.iter().find(|x| x.name == name).map(|x| x.value)
        };
        let lane = &b.lanes[q.index()];
        let counted = (of("rx"), of("tx"));
        let seen = (Some(lane.rx_packets), Some(lane.tx_packets));
        ensure!(counted == seen, "queue {q} counts {counted:?} packets, it moved {seen:?}");
    }
    b.stop(0)
}

fn switch(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    if !b.can(Capabilities::QUEUE_STOP) {
        for e in
            [b.port().set_rx_queue_running(Q0, false).err(), b.port().set_tx_queue_running(Q0, false).err()]
        {
            ensure!(matches!(e, Some(PortError::Unsupported { .. })), "stopping a queue gave {e:?}");
        }
        b.flow(Q0, 10)?;
        b.stop(0)?;
        return inapplicable("its queues stop with the port");
    }
    for round in 0..20 {
        // Out: carried out at the owner's next call.
        b.flow(Q0, 8)?;
        b.port().set_rx_queue_running(Q0, false)?;
        b.port().set_tx_queue_running(Q0, false)?;
        if b.input == Input::Injected {
            b.offer(Q0, 3)?;
        }
        let mut got = Burst::new();
        let n = b.poll(Q0, &mut got, 32)?;
        ensure!(n == 0 && !b.rx[0].is_running(), "a stopped queue gave {n} packets");
        let frames = b.some_frames(4);
        let mut burst = b.packets(&frames)?;
        let n = b.send_once(Q0, &mut burst)?;
        ensure!(n == 0 && !b.tx[0].is_running(), "a stopped queue took {n} packets");
        if round % 2 == 0 {
            // Home: at once.
            b.rx.clear();
            b.tx.clear();
            b.port().set_rx_queue_running(Q0, true)?;
            b.port().set_tx_queue_running(Q0, true)?;
            let (rx, tx) = (b.port().take_rx(Q0)?, b.port().take_tx(Q0)?);
            b.rx.push(rx);
            b.tx.push(tx);
        } else {
            // Wishes that follow each other before anybody looks: the last one counts.
            for run in [true, false, true] {
                b.port().set_rx_queue_running(Q0, run)?;
                b.port().set_tx_queue_running(Q0, run)?;
            }
        }
        drop(burst);
        b.lanes[0].restarted();
        if b.input == Input::Injected {
            // What came while it was stopped may still come, or may have been missed.
            b.receive(Q0, 3, 32)?;
        }
    }
    b.flow(Q0, 8)?;
    b.port().set_rx_queue_running(Q0, false)?;
    b.port().set_tx_queue_running(Q0, false)?;
    b.stop(0)?;
    // The port's start starts them again.
    b.start()?;
    b.flow(Q0, 8)?;
    b.stop(0)
}

fn deferred(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(1, pool.clone())?;
    b.port().configure(crate::PortConfig::default())?;
    let can = b.can(Capabilities::QUEUE_STOP);
    let rx = RxQueueConfig { deferred_start: true, ..RxQueueConfig::new(&pool) };
    let tx = TxQueueConfig { deferred_start: true, ..Default::default() };
    let (rx, tx) = (b.port().rx_queue_setup(Q0, rx), b.port().tx_queue_setup(Q0, tx));
    if !can {
        let refused = |r: &Result<(), PortError>| matches!(r, Err(PortError::Unsupported { .. }));
        ensure!(refused(&rx) && refused(&tx), "a deferred start gave {rx:?} and {tx:?}");
        return inapplicable("its queues start with the port");
    }
    rx?;
    tx?;
    b.start()?;
    let frames = b.some_frames(4);
    let mut burst = b.packets(&frames)?;
    ensure!(b.send_once(Q0, &mut burst)? == 0, "a queue that was not started takes packets");
    ensure!(b.poll(Q0, &mut burst, 32)? == 0, "a queue that was not started gives packets");
    drop(burst);
    b.port().set_tx_queue_running(Q0, true)?;
    b.port().set_rx_queue_running(Q0, true)?;
    b.flow(Q0, 20)?;
    b.stop(0)
}

/// Each queue pair forwards on its own thread, while this one reads the counters and stops and starts queues.
fn threads(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(2)?;
    let switched = b.can(Capabilities::QUEUE_STOP);
    if b.input == Input::Loopback {
        for q in 0..b.queues {
            b.offer(QueueId(q), 32)?;
        }
    }
    let end = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = std::mem::take(&mut b.rx)
        .into_iter()
        .zip(std::mem::take(&mut b.tx))
        .map(|(mut rx, mut tx)| {
            let end = end.clone();
            thread::spawn(move || {
                let (mut burst, mut received, mut sent) = (Burst::new(), 0u64, 0u64);
                while !end.load(Relaxed) {
                    received += rx.rx_burst(&mut burst, 32) as u64;
                    sent += tx.tx_burst(&mut burst) as u64;
                    tx.end_of_poll();
                    burst.free_all();
                    thread::yield_now();
                }
                (received, sent)
            })
        })
        .collect();
    let mut before = b.port().stats();
    for i in 0..200 {
        let now = b.port().stats();
        let grew = now.rx_packets >= before.rx_packets && now.tx_packets >= before.tx_packets;
        ensure!(grew, "a counter went back from {before:?} to {now:?}");
        before = now;
        if switched {
            let q = QueueId(i % b.queues);
            b.port().set_rx_queue_running(q, i % 3 != 0)?;
            b.port().set_tx_queue_running(q, i % 5 != 0)?;
        }
        thread::yield_now();
    }
    end.store(true, Relaxed);
    let (mut received, mut sent) = (0, 0);
    for w in workers {
        let Ok((r, s)) = w.join() else { return Err(Stop::Failed("a worker panicked".into())) };
        received += r;
        sent += s;
    }
    let stats = b.port().stats();
    let primed: u64 = b.lanes.iter().map(|l| l.tx_packets).sum();
    let counted = (stats.rx_packets, stats.tx_packets);
    let moved = (received, sent + primed);
    ensure!(counted == moved, "{counted:?} packets counted, {moved:?} moved");
    // Nobody kept what was forwarded: it is taken off the wire unseen.
    b.port().stop()?;
    if matches!(b.output, Output::Collected | Output::CollectedAtStop) {
        for q in 0..b.queues {
            b.rig.collect(QueueId(q));
        }
    }
    Ok(())
}

/// Sets the byte behind the number, or cuts and grows, by the frame's number.
fn change(f: &mut Frame<'_>) -> Verdict {
    let number = f.data().get(17).copied().unwrap_or_default();
    match number % 5 {
        0 => Verdict::Drop,
        1 => Verdict::Aborted,
        2 => Verdict::Pass,
        3 => {
            if let Some(b) = f.data_mut().get_mut(19) {
                *b = !*b;
            }
            Verdict::Pass
        }
        _ => match f.adjust_head(4) && f.adjust_tail(-2) && f.adjust_head(-6) {
            true => {
                f.data_mut()[..2].fill(0xee);
                Verdict::Pass
            }
            false => Verdict::Aborted,
        },
    }
}

/// The same, on a frame of the suite.
fn changed(mut f: Vec<u8>) -> Option<Vec<u8>> {
    match f[17] % 5 {
        0 | 1 => return None,
        2 => {}
        3 => f[19] = !f[19],
        _ => {
            f.truncate(f.len() - 2);
            f.drain(..4);
            // Where the head grows over what was cut, the old bytes are still there.
            let mut g = vec![0xee, 0xee, 2, 0, 0, 0];
            g.append(&mut f);
            f = g;
        }
    }
    Some(f)
}

fn program(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    if !b.can(Capabilities::RX_PROGRAM) {
        let e = b.rx[0].set_program(Some(Box::new(|_: &mut Frame<'_>| Verdict::Drop))).err();
        ensure!(matches!(e, Some(PortError::Unsupported { .. })), "a program gave {e:?}");
        b.flow(Q0, 10)?;
        b.stop(0)?;
        return inapplicable("it has no place for a program");
    }
    let seen = Arc::new(AtomicU32::new(0));
    let count = seen.clone();
    b.rx[0].set_program(Some(Box::new(move |f: &mut Frame<'_>| {
        count.fetch_add(1, Relaxed);
        change(f)
    })))?;
    let (mut passed, mut shown) = (0, 0);
    for n in [1, 7, 32, 100] {
        match b.offer(Q0, n)? {
            Some(frames) => {
                shown += frames.len() as u32;
                let want: Vec<_> = frames.into_iter().filter_map(changed).collect();
                let got = b.receive(Q0, want.len(), 32)?;
                // Those dropped behind the last one that passes are shown by a further poll.
                let mut none = Burst::new();
                for _ in 0..5 {
                    b.poll(Q0, &mut none, 32)?;
                    b.rig.settle();
                }
                passed += want.len() as u32;
                let beheaded = |f: &[Vec<u8>]| f.iter().map(|f| mask(f)).collect::<Vec<_>>();
                same("passed by the program", &beheaded(&got), &beheaded(&want))?;
                ensure!(none.is_empty(), "{} frames passed that were to be dropped", none.len());
            }
            None => {
                let mut got = Burst::new();
                passed += b.poll(Q0, &mut got, n)? as u32;
                ensure!(got.as_slice().iter().all(|m| !bytes(m).is_empty()), "an empty packet came");
                shown = seen.load(Relaxed);
            }
        }
    }
    ensure!(seen.load(Relaxed) == shown, "{shown} frames came, the program saw {}", seen.load(Relaxed));
    let x = b.port().xstats();
    let of = |n: &str| x.iter().find(|x| x.name == format!("rx_program_{n}")).map_or(0, |x| x.value as u32);
    let counts = [of("pass"), of("drop"), of("aborted")];
    ensure!(counts.iter().sum::<u32>() == shown, "{counts:?} verdicts counted of {shown} frames");
    ensure!(counts[0] == passed, "{} passes counted, {passed} packets came", counts[0]);
    let (received, lane) = (b.port().stats(), b.lanes[0].rx_bytes);
    ensure!(received.rx_packets == passed.into(), "dropped packets are counted as received");
    ensure!(
        received.rx_bytes.is_none_or(|n| n == lane),
        "{:?} bytes counted, {lane} came",
        received.rx_bytes
    );
    b.rx[0].set_program(None)?;
    if matches!(b.input, Input::Finite(_)) {
        b.stop(0)?;
        b.start()?;
    }
    b.flow(Q0, 20)?;
    ensure!(seen.load(Relaxed) == shown, "the program still sees frames after it was taken out");
    b.stop(0)
}

/// A frame without the bytes that a program moved over: they are whatever memory held.
fn mask(f: &[u8]) -> Vec<u8> {
    let mut f = f.to_vec();
    if f.starts_with(&[0xee, 0xee]) {
        f[2..6].fill(0);
    }
    f
}
