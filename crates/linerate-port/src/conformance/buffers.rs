//! Buffers: a pool that runs empty, packets of several segments, external and shared ones, frames too long.

use super::{
    Case, Input, Output,
    bench::{Bench, Lab, Q0, Stop, ensure, inapplicable, same, whole},
};
use crate::{Capabilities, ETHER_OVERHEAD, PortError, RxOffloads};
use linerate_mbuf::{Burst, ExtBuf, Mbuf, SharedMbuf};

pub(super) const CASES: &[Case] = &[
    ("a pool runs empty and is refilled", pool_empty),
    ("packets of several segments are sent", segments_out),
    ("long frames come in several segments", segments_in),
    ("frames longer than a buffer without scatter", too_long),
    ("external buffers are sent", external),
    ("shared and attached buffers are sent", shared),
];

/// Bug case 29: an empty ring was refilled only after a received packet, that is, never.
fn pool_empty(lab: &Lab<'_>) -> Result<(), Stop> {
    for after in ["all", "some"] {
        let pool = lab.pool(64, 2048);
        let mut b = lab.opened(1, pool)?;
        match b.configure(b.config()) {
            Err(PortError::PoolTooSmall { .. }) => {
                return inapplicable("its queues take more than 64 buffers");
            }
            other => other?,
        }
        b.start()?;
        if b.input == Input::Loopback {
            // The receiver takes none: it is the sender's pool that runs dry.
            b.sender = b.pool.clone();
        }
        let mut kept = Burst::new();
        for _ in 0..40 {
            let n = usize::try_from(b.sender.counts().free).unwrap_or(0).min(16);
            b.offer(Q0, if b.input == Input::Loopback { n } else { 16 })?;
            b.poll(Q0, &mut kept, 16)?;
            b.rig.settle();
        }
        if b.pool.counts().free > 0 && b.input != Input::Loopback {
            drop(kept);
            b.stop(0)?;
            return inapplicable("its receive queue never emptied the pool");
        }
        let mut none = Burst::new();
        for _ in 0..5 {
            ensure!(b.poll(Q0, &mut none, 32)? == 0, "a packet came without a buffer");
        }
        let stats = b.port().stats();
        if b.input != Input::Loopback {
            let lost = stats.rx_nombuf + stats.rx_missed;
            ensure!(lost > 0, "{after} freed: the want of buffers is not counted");
        }
        // Freed: the next poll posts buffers, and reception goes on.
        match after {
            "all" => kept.free_all(),
            _ => kept.free_front(3),
        }
        if b.input == Input::Endless {
            let n = b.poll(Q0, &mut none, 32)?;
            ensure!(n > 0, "{after} freed: nothing comes at the next poll");
        } else {
            b.poll(Q0, &mut none, 32)?;
            none.free_all();
            b.rig.settle();
            let offered = b.offer(Q0, 2)?;
            b.take_offered(Q0, offered, 2, 32)?;
        }
        drop((kept, none));
        b.stop(0)?;
    }
    Ok(())
}

/// A packet whose segments have these lengths.
fn chained(b: &Bench, f: &[u8], lengths: &[usize]) -> Result<Mbuf, Stop> {
    let (mut packet, mut rest): (Option<Mbuf>, _) = (None, f);
    for &n in lengths {
        let (now, behind) = rest.split_at(n);
        rest = behind;
        let Some(mut m) = b.sender.alloc_filled(now) else { return Err(Stop::Failed("no buffer".into())) };
        packet = Some(match packet {
            None => m,
            Some(mut p) => {
                m.set_port(p.port());
                ensure!(p.chain(m).is_ok(), "segments cannot be chained");
                p
            }
        });
    }
    packet.ok_or_else(|| Stop::Failed("a packet without segments".into()))
}

fn segments_out(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(1, pool)?;
    if !b.can(Capabilities::MULTI_SEGMENT) {
        return inapplicable("it sends packets of one segment");
    }
    let most = usize::from(b.port().info().limits.max_tx_segments);
    let config = b.segments_config();
    b.configure(config)?;
    b.start()?;
    let shapes: [&[usize]; 6] = [
        &[60],
        &[14, 46],
        &[14, 1, 585],
        &[1, 1, 1, 61],
        &[700, 700, 100],
        &[20, 20, 20, 20, 20, 20, 20, 20],
    ];
    for _ in 0..4 {
        let mut burst = Burst::new();
        let mut frames = Vec::new();
        for shape in shapes.iter().filter(|s| s.len() <= most) {
            frames.extend(b.frames([shape.iter().sum::<usize>()]));
            let Some(f) = frames.last() else { continue };
            let m = chained(&b, f, shape)?;
            ensure!(burst.push(m).is_ok(), "the burst is full");
        }
        b.pass(Q0, &mut burst, &frames)?;
    }
    let stats = b.port().stats();
    let sent = b.lanes[0].tx_bytes;
    ensure!(stats.tx_bytes.is_none_or(|n| n == sent), "{:?} bytes counted, {sent} sent", stats.tx_bytes);
    b.stop(0)
}

fn segments_in(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 256);
    let mut b = lab.opened(1, pool)?;
    if !b.can(Capabilities::SCATTER) {
        return inapplicable("it receives into one buffer");
    }
    let config = b.segments_config();
    b.configure(config)?;
    b.start()?;
    b.flow(Q0, 60)?;
    let stats = b.port().stats();
    let got = b.lanes[0].rx_bytes;
    ensure!(stats.rx_bytes.is_none_or(|n| n == got), "{:?} bytes counted, {got} received", stats.rx_bytes);
    b.stop(0)
}

/// Bug case 26: a long frame was copied past its buffer.
fn too_long(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(512, 512);
    let mut b = lab.opened(1, pool)?;
    if b.input != Input::Injected {
        return inapplicable("nobody can send it long frames");
    }
    let config = crate::PortConfig { mtu: 512 - ETHER_OVERHEAD, ..b.config() };
    ensure!(!config.rx_offloads.contains(RxOffloads::SCATTER), "scatter is on by itself");
    b.configure(config)?;
    b.start()?;
    let frames = b.frames([500, 512, 513, 1400, 400]);
    let went = b.rig.inject(Q0, &frames);
    let got = b.receive(Q0, went, 32)?;
    let fits: Vec<_> = frames[..went].iter().filter(|f| f.len() <= 512).cloned().collect();
    if got.len() == went {
        // Buffers that pass by reference are as long as they are.
        same("received", &got, &frames[..went])?;
    } else {
        same("received", &got, &fits)?;
        let s = b.port().stats();
        let lost = (went - fits.len()) as u64;
        let counted = s.rx_errors + s.rx_missed;
        ensure!(counted == lost, "{lost} long frames were dropped and {counted} counted");
    }
    b.stop(0)
}

fn external(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let mut memory = ExtBuf::from_vec(vec![0; 8 * 1024]);
    let frames = b.frames([60, 700, 1024]);
    let mut burst = Burst::new();
    for f in &frames {
        let (Some(slice), Some(mut m)) = (memory.take(1024), b.sender.alloc()) else {
            return Err(Stop::Failed("no memory".into()));
        };
        m.attach_external(slice);
        let Some(d) = m.append(f.len()) else { return Err(Stop::Failed("no room".into())) };
        d.copy_from_slice(f);
        ensure!(burst.push(m).is_ok(), "the burst is full");
    }
    b.pass(Q0, &mut burst, &frames)?;
    b.stop(0)?;
    ensure!(memory.users() == 1, "{} packets still use the external memory", memory.users() - 1);
    Ok(())
}

fn shared(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    if !b.can(Capabilities::SHARED_BUFFERS) {
        return inapplicable("it sends unique packets only");
    }
    let headers = lab.pool(64, 128);
    let frames = b.some_frames(12);
    let mut kept = Vec::new();
    let mut burst: Burst<SharedMbuf> = Burst::new();
    for (i, m) in b.packets(&frames)?.drain().enumerate() {
        let m = m.share();
        let sent = match i % 3 {
            // Ours alone; held twice; a header of its own on bytes that another holds.
            0 => m,
            1 => {
                kept.push((i, m.clone()));
                m
            }
            _ => {
                let Some(attached) = m.attach(&headers) else { return Err(Stop::Failed("no header".into())) };
                kept.push((i, m));
                attached
            }
        };
        ensure!(burst.push(sent).is_ok(), "the burst is full");
    }
    let (mut got, mut idle) = (Vec::new(), 0);
    while !burst.is_empty() {
        let before: Vec<Vec<u8>> = burst.as_slice().iter().map(flat).collect();
        let n = b.tx[0].tx_burst_shared(&mut burst);
        let after: Vec<Vec<u8>> = burst.as_slice().iter().map(flat).collect();
        ensure!(
            n + after.len() == before.len(),
            "transmit took {n} of {} and left {}",
            before.len(),
            after.len()
        );
        same("left by transmit", &after, &before[n..])?;
        b.tx[0].end_of_poll();
        idle = if n == 0 { idle + 1 } else { 0 };
        ensure!(idle < 100, "{} shared packets are never taken", burst.len());
        if b.output == Output::Loopback {
            got.extend(b.receive(Q0, n, 32)?);
        }
        b.make_room(Q0);
    }
    let sent = b.port().stats().tx_packets;
    ensure!(sent == 12, "{sent} shared packets counted, 12 sent");
    match b.output {
        Output::Loopback => same("received", &got, &frames)?,
        Output::Collected => {
            b.lanes[0].unseen_are(&frames);
            b.pass(Q0, &mut Burst::new(), &frames)?;
        }
        Output::CollectedAtStop => b.lanes[0].unseen_are(&frames),
        Output::Dropped => {}
    }
    for (i, m) in &kept {
        ensure!(flat(m) == frames[*i], "shared packet {i} was written to");
    }
    // Not the bench's stop: what is kept is still out.
    let (rx, tx) = (std::mem::take(&mut b.rx), std::mem::take(&mut b.tx));
    drop((rx, tx));
    b.port().stop()?;
    let more: Vec<_> = kept.iter().filter(|(_, m)| m.reference_count() != 1).map(|(i, _)| *i).collect();
    ensure!(more.is_empty(), "shared packets {more:?} are still held by the port after it stopped");
    let out = kept.len() as u32;
    whole(&b.sender.clone(), out, "after stop, send pool")?;
    drop(kept);
    b.start()?;
    b.stop(0)
}

fn flat(m: &SharedMbuf) -> Vec<u8> {
    m.segments().flatten().copied().collect()
}
