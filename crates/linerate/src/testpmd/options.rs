//! The command line: options with testpmd's names and ranges.

use super::{
    modes::{ModeName, noisy::NoisyForward, txonly::Split},
    tester::inject::Inject,
    topology::Topology,
};
use clap::{ArgAction, ValueEnum, value_parser};
use linerate_mem::IdList;
use linerate_net::MacAddr;
use std::{net::Ipv4Addr, path::PathBuf, time::Duration};

/// Forward packets between ports, and report what moved.
///
/// Without --port, two ports inside the process forward UDP frames from a built-in tester that checks every
/// frame it gets back; a lost or changed frame ends in exit status 1.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    // Boxed: the subcommands of the program are of one size.
    #[command(flatten)]
    pub(super) options: Box<Options>,
}

/// The options themselves.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// A port: driver:device,key=value,... (repeatable; see below)
    #[arg(long = "port", value_name = "SPEC", help_heading = "Run")]
    pub(super) ports: Vec<String>,
    /// Seconds to forward; fractions allowed, 0 = until Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, help_heading = "Run")]
    pub(super) duration: Duration,
    /// Wait for commands at a prompt, or from a pipe; `help` lists them
    #[arg(short = 'i', long, conflicts_with_all = ["duration", "json", "tx_first", "stats_period"], help_heading = "Run")]
    pub(super) interactive: bool,
    /// With -i: forward already when the prompt appears
    #[arg(short = 'a', long, requires = "interactive", help_heading = "Run")]
    pub(super) auto_start: bool,
    /// With -i: commands to carry out before the prompt appears, a line each, shown as they run (repeatable)
    #[arg(long, value_name = "FILE", requires = "interactive", help_heading = "Run")]
    pub(super) cmdline_file: Vec<PathBuf>,
    /// The same without showing them
    #[arg(long, value_name = "FILE", requires = "interactive", help_heading = "Run")]
    pub(super) cmdline_file_noecho: Vec<PathBuf>,
    /// Write the report as JSON to a file, or to standard output (-), where then nothing else is written
    #[arg(long, value_name = "FILE|-", help_heading = "Run")]
    pub(super) json: Option<PathBuf>,

    /// What is done to packets
    #[arg(long, value_name = "MODE", default_value = "io", value_enum, help_heading = "Forwarding")]
    pub(super) forward_mode: ModeName,
    /// Which port sends what another receives
    #[arg(long, value_name = "TOPOLOGY", default_value = "paired", value_enum, help_heading = "Forwarding")]
    pub(super) port_topology: Topology,
    /// Ports that forward, in this order: X,Y-Z [all]
    #[arg(long, value_name = "LIST", conflicts_with = "nb_ports", help_heading = "Forwarding")]
    pub(super) portlist: Option<String>,
    /// How many of the ports forward, from the first [all]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u16).range(1..), help_heading = "Forwarding")]
    pub(super) nb_ports: Option<u16>,
    /// Forwarding cores: 1 to 128; never more than there are streams
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = value_parser!(u16).range(1..=128), help_heading = "Forwarding")]
    pub(super) nb_cores: u16,
    /// Which cores, such as 0,2-3: the first ones forward, the next one runs the built-in tester [all allowed]
    #[arg(long, value_name = "LIST", value_parser = id_list, help_heading = "Forwarding")]
    pub(super) cores: Option<IdList>,
    /// Packets of a burst: 1 to 512; 0 = what the first port prefers
    #[arg(long, value_name = "N", default_value_t = 32, allow_negative_numbers = true, value_parser = value_parser!(u16).range(0..=512), help_heading = "Forwarding")]
    pub(super) burst: u16,
    /// Send N bursts of made packets before forwarding (1 when no N is given): what circulates between ring ports
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=65535), help_heading = "Forwarding")]
    pub(super) tx_first: Option<u32>,
    /// Forward what lies in the receive queues at the start (ends of files are never thrown away)
    #[arg(long, help_heading = "Forwarding")]
    pub(super) no_flush_rx: bool,
    /// Offer what a port did not take again instead of dropping it at once
    #[arg(long, help_heading = "Forwarding")]
    pub(super) retry: bool,
    /// With --retry: microseconds between two offers, 0 to 1000000
    #[arg(long, value_name = "US", default_value_t = 1, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=1_000_000), help_heading = "Forwarding")]
    pub(super) burst_tx_delay: u32,
    /// With --retry: most offers of a burst's rest, 1 to 65535
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=65535), help_heading = "Forwarding")]
    pub(super) burst_tx_retry: u32,
    /// MAC address of a port's peer (repeatable) [02:00:00:00:00:NN]
    #[arg(long, value_name = "PORT,MAC", help_heading = "Forwarding")]
    pub(super) eth_peer: Vec<String>,
    /// File with the MAC addresses of the peers, a line a port
    #[arg(long, value_name = "FILE", help_heading = "Forwarding")]
    pub(super) eth_peers_configfile: Option<PathBuf>,
    /// csum: look into VXLAN, VXLAN-GPE, GENEVE, GTP, GRE and IP in IP
    #[arg(long, help_heading = "Forwarding")]
    pub(super) csum_parse_tunnel: bool,
    /// csum: set the MAC addresses as the mode mac does
    #[arg(long, value_name = "on|off", default_value = "on", value_enum, help_heading = "Forwarding")]
    pub(super) csum_mac_swap: Switch,

    /// Receive descriptors a queue: 0 = the port's default, to 65535; rounded to what the port can do
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Queues and buffers"
    )]
    pub(super) rxd: u16,
    /// Transmit descriptors a queue: 0 = the port's default, to 65535; rounded to what the port can do
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Queues and buffers"
    )]
    pub(super) txd: u16,
    /// Receive queues a port: 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = value_parser!(u16).range(1..=1024), help_heading = "Queues and buffers")]
    pub(super) rxq: u16,
    /// Transmit queues a port: 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = value_parser!(u16).range(1..=1024), help_heading = "Queues and buffers")]
    pub(super) txq: u16,
    /// Bytes of a buffer, of which 128 are headroom: 192 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = 2176, allow_negative_numbers = true, value_parser = value_parser!(u16).range(192..), help_heading = "Queues and buffers")]
    pub(super) mbuf_size: u16,
    /// Buffers that each core keeps for itself: 0 to 512
    #[arg(long, value_name = "N", default_value_t = 256, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=512), help_heading = "Queues and buffers")]
    pub(super) mbcache: u32,
    /// Buffers in all: 1 to 268435456 [what the queues, caches and bursts need]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=1 << 28), help_heading = "Queues and buffers")]
    pub(super) total_num_mbufs: Option<u32>,
    /// Longest frame in bytes, Ethernet header and check sequence included: 86 to 65531 [1518]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = value_parser!(u16).range(86..=65531), help_heading = "Queues and buffers")]
    pub(super) max_pkt_len: Option<u16>,
    /// Spread frames over several buffers where one is too small
    #[arg(long, help_heading = "Queues and buffers")]
    pub(super) enable_scatter: bool,
    /// NUMA node of the buffers: 0 to 1023 [that of the ports]
    #[arg(long, value_name = "NODE", allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=1023), help_heading = "Queues and buffers")]
    pub(super) socket_num: Option<u32>,
    /// Take buffers wherever the kernel gives them
    #[arg(long, conflicts_with = "socket_num", help_heading = "Queues and buffers")]
    pub(super) no_numa: bool,
    /// Memory of the buffers: reserved huge pages when there are any (native), or ordinary memory (anon)
    #[arg(
        long,
        value_name = "native|anon",
        default_value = "native",
        value_enum,
        help_heading = "Queues and buffers"
    )]
    pub(super) mp_alloc: MpAlloc,
    /// Take no reserved huge pages: the same as --mp-alloc anon
    #[arg(long, help_heading = "Queues and buffers")]
    pub(super) no_huge: bool,

    /// Bytes of each segment of a made packet, 42 to 65535 in all
    #[arg(long, value_name = "A,B,...", default_value = "64", allow_negative_numbers = true, value_parser = value_parser!(u16).range(0..), value_delimiter = ',', action = ArgAction::Append, help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) txpkts: Vec<u16>,
    /// Into how many of the segments a packet is spread
    #[arg(
        long,
        value_name = "off|on|rand",
        default_value = "off",
        value_enum,
        help_heading = "Made packets (txonly, flowgen, --tx-first)"
    )]
    pub(super) txsplit: Split,
    /// Vary the UDP source port from packet to packet
    #[arg(long, help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) txonly_multi_flow: bool,
    /// With --txonly-multi-flow: source ports, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = value_parser!(u8).range(1..=64), help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) txonly_flows: u8,
    /// flowgen: how often each packet is sent once more without a copy, 0 to 65535
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u16), help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) flowgen_clones: u16,
    /// flowgen: destination addresses that packets go round, 1 to 16777216
    #[arg(long, value_name = "N", default_value_t = 1024, allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=1 << 24), help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) flowgen_flows: u32,
    /// IPv4 addresses of a made packet
    #[arg(long, value_name = "SRC,DST", default_value = "198.18.0.1,198.18.0.2", value_parser = addresses, help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) tx_ip: (Ipv4Addr, Ipv4Addr),
    /// UDP ports of a made packet, 0 to 65535; one number is both
    #[arg(long, value_name = "SRC[,DST]", default_value = "9,9", value_parser = udp_ports, help_heading = "Made packets (txonly, flowgen, --tx-first)")]
    pub(super) tx_udp: (u16, u16),

    /// Packets that a FIFO holds back, 0 to 1048576; 0 = none
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=1 << 20), help_heading = "Noise (noisy)")]
    pub(super) noisy_tx_sw_buffer_size: u32,
    /// Milliseconds without a packet after which the FIFO is emptied, 0 to 3600000; 0 = at the end
    #[arg(long, value_name = "MS", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=3_600_000), help_heading = "Noise (noisy)")]
    pub(super) noisy_tx_sw_buffer_flushtime: u32,
    /// MiB of memory that are looked up, 0 to 65536
    #[arg(long, value_name = "MIB", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=65536), help_heading = "Noise (noisy)")]
    pub(super) noisy_lkup_memory: u32,
    /// Random reads a packet, 0 to 1048576
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=1 << 20), help_heading = "Noise (noisy)")]
    pub(super) noisy_lkup_num_reads: u32,
    /// Random writes a packet, 0 to 1048576
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=1 << 20), help_heading = "Noise (noisy)")]
    pub(super) noisy_lkup_num_writes: u32,
    /// Random reads with a write to the same place a packet, 0 to 1048576
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=1 << 20), help_heading = "Noise (noisy)")]
    pub(super) noisy_lkup_num_reads_writes: u32,
    /// What noisy does to packets beside
    #[arg(long, value_name = "MODE", default_value = "io", value_enum, help_heading = "Noise (noisy)")]
    pub(super) noisy_forward_mode: NoisyForward,

    /// Show all ports each SEC seconds, 1 to 65534, instead of a line each second
    #[arg(long, value_name = "SEC", allow_negative_numbers = true, value_parser = value_parser!(u16).range(1..=65534), help_heading = "Figures")]
    pub(super) stats_period: Option<u16>,
    /// With --stats-period: further counters of the ports by name
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "stats_period",
        help_heading = "Figures"
    )]
    pub(super) display_xstats: Vec<String>,
    /// Measure the cycles of calls that did work (costs a reading of the counter a burst)
    #[arg(long, help_heading = "Figures")]
    pub(super) record_core_cycles: bool,
    /// Count how often a burst had which size
    #[arg(long, help_heading = "Figures")]
    pub(super) record_burst_stats: bool,

    /// Bytes of the built-in tester's frames, without check sequence: 64 to 65535, at most what a buffer holds
    #[arg(long, value_name = "BYTES", default_value_t = 64, allow_negative_numbers = true, value_parser = value_parser!(u16).range(64..), conflicts_with = "ports", help_heading = "Built-in tester")]
    pub(super) frame_size: u16,
    /// Let the tester harm one frame in N on its way to the check, to see that the check finds it
    #[arg(
        long,
        value_name = "drop|corrupt|dup|reorder=N",
        conflicts_with = "ports",
        help_heading = "Built-in tester"
    )]
    pub(super) inject: Option<Inject>,
}

const AFTER_HELP: &str = "\
Ports:
  null:size=64                                receives out of nothing, sends to nowhere
  ring:r0                                     receives what it sends
  pcap:rx_pcap=in.pcap,tx_pcap=out.pcap       capture files

Examples:
  linerate testpmd                            two ports in the process, every frame checked
  linerate testpmd --port null --port null --forward-mode macswap
  linerate testpmd --port ring:r0 --port ring:r1 --tx-first=4
  linerate testpmd --port pcap:rx_pcap=in.pcap,tx_pcap=out.pcap --json report.json

Exit status: 0 when all went well; 1 when a port failed or frames were lost, changed or leaked; 2 when the
command line is wrong.";

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// Where buffers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MpAlloc {
    /// Reserved huge pages when there are any
    Native,
    /// Ordinary memory
    Anon,
}

/// The longest run that makes sense to ask for: a hundred years.
const MAX_SECONDS: f64 = 100.0 * 365.0 * 86400.0;

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=MAX_SECONDS).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("wanted seconds from 0 to 3153600000, such as 10 or 0.5".into()),
    }
}

fn id_list(text: &str) -> Result<IdList, String> {
    let list: IdList = text.parse().map_err(|e: linerate_mem::IdListError| format!("{e}; {}", e.hint()))?;
    if list.is_empty() { Err("a list of no core".into()) } else { Ok(list) }
}

fn addresses(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), String> {
    let parsed = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parsed.ok_or_else(|| "wanted two IPv4 addresses, such as 198.18.0.1,198.18.0.2".into())
}

fn udp_ports(text: &str) -> Result<(u16, u16), String> {
    let (a, b) = text.split_once(',').unwrap_or((text, text));
    // Read wide by the integer parser: 65536 is refused, not cut.
    match (a.parse(), b.parse()) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        _ => Err("wanted one or two UDP ports from 0 to 65535, such as 9,9".into()),
    }
}

/// A port's number and its peer's address, the number not yet held against the ports there are.
pub(super) fn peer(text: &str) -> Result<(&str, MacAddr), String> {
    let (port, mac) = text.split_once(',').ok_or("wanted PORT,MAC, such as 0,02:00:00:00:00:01")?;
    let mac: MacAddr =
        mac.trim().parse().map_err(|e: linerate_net::ether::MacParseError| format!("{e}; {}", e.hint()))?;
    if mac.is_assignable() { Ok((port, mac)) } else { Err(format!("{mac} is no station's address")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches, error::ErrorKind};

    fn read(args: &[&str]) -> Result<Box<Options>, clap::Error> {
        let command = Args::augment_args(Command::new("testpmd"));
        command
            .try_get_matches_from([&["testpmd"], args].concat())
            .and_then(|m| Args::from_arg_matches(&m))
            .map(|a| a.options)
    }

    #[test]
    fn the_command_line_is_consistent_and_defaults_are_testpmds() {
        Args::augment_args(Command::new("testpmd")).debug_assert();
        let a = read(&[]).unwrap();
        assert_eq!(a.duration, Duration::from_secs(10));
        assert_eq!((a.burst, a.nb_cores, a.rxq, a.txq, a.rxd, a.mbuf_size), (32, 1, 1, 1, 0, 2176));
        assert_eq!((a.burst_tx_delay, a.burst_tx_retry, a.txonly_flows), (1, 64, 64));
        assert_eq!((a.txpkts, a.tx_udp, a.tx_first), (vec![64], (9, 9), None));
        assert_eq!((a.forward_mode, a.port_topology), (ModeName::Io, Topology::Paired));
    }

    #[test]
    fn every_range_is_held() {
        for bad in [
            "--burst=513",
            "--burst=-1",
            "--burst=65568",
            "--rxd=65536",
            "--txd=-1",
            "--rxq=0",
            "--rxq=1025",
            "--nb-cores=0",
            "--nb-cores=129",
            "--mbcache=513",
            "--mbuf-size=191",
            "--mbuf-size=65536",
            "--total-num-mbufs=0",
            "--total-num-mbufs=268435457",
            "--txonly-flows=0",
            "--txonly-flows=65",
            "--txpkts=",
            "--txpkts=64,x",
            "--txpkts=65536",
            "--stats-period=0",
            "--stats-period=65535",
            "--duration=-1",
            "--duration=nan",
            "--duration=inf",
            "--duration=x",
            "--duration=1e300",
            "--tx-ip=1.2.3.4",
            "--tx-ip=1.2.3.4,5",
            "--tx-udp=65536",
            "--tx-udp=1,2,3",
            "--cores=",
            "--cores=3-1",
            "--cores=8192",
            "--max-pkt-len=85",
            "--frame-size=63",
            "--inject=drop",
            "--inject=drop=0",
            "--inject=lose=5",
            "--forward-mode=fast",
            "--port-topology=star",
            "--socket-num=1024",
            "--tx-first=0",
            "--nb-ports=0",
            "--burst-tx-retry=0",
            "--csum-mac-swap=1",
        ] {
            let e = read(&[bad]).map(|_| ()).expect_err(bad);
            assert!(matches!(e.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue), "{bad}: {e}");
            assert_eq!(e.exit_code(), 2, "{bad}");
        }
        for good in
            ["--burst=0", "--burst=512", "--rxd=65535", "--duration=0", "--duration=0.25", "--cores=0,2-3"]
        {
            read(&[good]).expect(good);
        }
    }

    #[test]
    fn a_number_below_0_is_told_with_its_option() {
        for option in ["--burst", "--rxq", "--nb-cores", "--total-num-mbufs", "--max-pkt-len"] {
            let e = read(&[option, "-1"]).unwrap_err();
            assert!(e.kind() == ErrorKind::ValueValidation && e.to_string().contains(option), "{e}");
        }
    }

    #[test]
    fn an_unknown_option_is_answered_with_the_nearest() {
        let e = read(&["--brust=4"]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::UnknownArgument);
        assert!(e.to_string().contains("--burst"), "{e}");
        assert!(read(&["--forward-mode=macsawp"]).unwrap_err().to_string().contains("macswap"));
    }

    #[test]
    fn values_are_read() {
        let a = read(&["--tx-first", "--txpkts=20,80", "--tx-udp=7", "--forward-mode=5tswap"]).unwrap();
        assert_eq!((a.tx_first, a.txpkts, a.tx_udp), (Some(1), vec![20, 80], (7, 7)));
        assert_eq!(read(&["--tx-first=4"]).unwrap().tx_first, Some(4));
        assert_eq!(peer("1,02:00:00:00:00:07").unwrap(), ("1", MacAddr::peer(7)));
        for bad in ["1", "1,", "1,ff:ff:ff:ff:ff:ff", "1,02:00"] {
            assert!(peer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_that_exclude_each_other_do() {
        for bad in [
            &["--portlist=0", "--nb-ports=1"][..],
            &["--socket-num=0", "--no-numa"],
            &["--display-xstats=a"],
            &["--port=null", "--inject=drop=5"],
            &["--port=null", "--frame-size=100"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
