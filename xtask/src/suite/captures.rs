//! Real input end to end: a capture file goes in at one port, out into another file, and tcpdump, which is not ours,
//! must read the same frames from both.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::packages::TCPDUMP;
use super::smoke::{number, testpmd};
use super::{Context, Failure, Tally};

const FRAMES: u16 = 1000;

/// Forwards a small capture and compares what tcpdump sees before and after.
pub(super) fn step(context: &Context) -> Result<Tally, Failure> {
    if !TCPDUMP.is_installed() {
        return Ok(Tally::one_skipped(format!("captures: package {} is not installed", TCPDUMP.name)));
    }
    compare(context)?;
    Ok(Tally::one_passed())
}

fn compare(context: &Context) -> Result<()> {
    let (input, output) = (context.target.join("xtask-in.pcap"), context.target.join("xtask-out.pcap"));
    std::fs::write(&input, capture()).with_context(|| format!("cannot write {}", input.display()))?;
    _ = std::fs::remove_file(&output);
    let port = format!("pcap:rx_pcap={},tx_pcap={}", input.display(), output.display());
    let report = testpmd(context, &["--port", &port, "--duration", "1"])?;
    let sent = number(&report, "/forward/tx_packets")?;
    ensure!(sent == u64::from(FRAMES), "{FRAMES} frames went in, {sent} were sent");
    let (before, after) = (listing(&input)?, listing(&output)?);
    ensure!(
        before.matches("udp sum ok").count() == usize::from(FRAMES),
        "tcpdump does not take our own frames"
    );
    ensure!(
        before == after,
        "tcpdump reads other frames from {} than from {}",
        output.display(),
        input.display()
    );
    println!("   tcpdump reads the same {FRAMES} frames from both files");
    Ok(())
}

/// All frames of a file, in full and without their times.
fn listing(file: &Path) -> Result<String> {
    let sbin = std::env::join_paths(
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).chain(["/usr/sbin".into()]),
    )?;
    let done = Command::new(TCPDUMP.program)
        .args(["-t", "-nn", "-e", "-vv", "-xx", "-r"])
        .arg(file)
        .env("PATH", sbin)
        .output()
        .context("cannot start tcpdump")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "tcpdump refuses {}: {said}", file.display());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A classic capture file: UDP frames of growing size, numbered, with right checksums.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes()); // magic, version 2.4, zone, accuracy, snap length, Ethernet
    }
    for number in 0..FRAMES {
        let frame = frame(number);
        let length = frame.len() as u32;
        for word in [1_700_000_000, u32::from(number) * 10, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

fn frame(number: u16) -> Vec<u8> {
    let payload: Vec<u8> = (0..18 + number % 1400).map(|at| (at ^ number) as u8).collect();
    let udp_length = 8 + payload.len() as u16;

    let mut udp = Vec::new();
    for word in [1024 + number, 9, udp_length, 0] {
        udp.extend(word.to_be_bytes());
    }
    udp.extend(&payload);
    let addresses = [10, 0, 0, 1, 10, 0, (number >> 8) as u8, number as u8];
    let pseudo = [&addresses[..], &[0, 17], &udp_length.to_be_bytes(), &udp].concat();
    let sum = match checksum(&pseudo) {
        0 => 0xffff, // zero on the wire says "none"
        sum => sum,
    };
    udp.splice(6..8, sum.to_be_bytes());

    let mut ip = vec![0x45, 0];
    for word in [20 + udp_length, number, 0, 64 << 8 | 17, 0] {
        ip.extend(word.to_be_bytes());
    }
    ip.extend(addresses);
    let sum = checksum(&ip);
    ip.splice(10..12, sum.to_be_bytes());

    let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    [&ethernet[..], &ip, &udp].concat()
}

/// RFC 1071, the plain way.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // 0001 f203 f4f5 f6f7 sum to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn the_capture_has_its_frames_at_the_lengths_it_says() {
        let file = capture();
        let (mut at, mut frames) = (24, 0);
        while at < file.len() {
            let length = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
            let ip = &file[at + 16 + 14..at + 16 + length];
            assert_eq!(checksum(&ip[..20]), 0, "a right header sums to zero");
            at += 16 + length;
            frames += 1;
        }
        assert_eq!((at, frames), (file.len(), usize::from(FRAMES)));
    }

    #[test]
    fn tcpdump_takes_the_frames_as_right() {
        if !TCPDUMP.is_installed() {
            use std::io::Write as _;
            _ = writeln!(
                std::io::stderr(),
                "SKIPPED tcpdump_takes_the_frames_as_right: tcpdump is not installed"
            );
            return;
        }
        let file = std::env::temp_dir().join(format!("xtask-captures-{}.pcap", std::process::id()));
        std::fs::write(&file, capture()).unwrap();
        let listing = listing(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(listing.unwrap().matches("udp sum ok").count(), usize::from(FRAMES));
    }
}
