//! From options to a plan: everything that can be known wrong before any port is touched.

use super::{
    error::TestpmdError,
    modes::{ModeName, csum::CsumPlan, flowgen::FlowgenPlan, noisy::NoisyPlan, txonly::TxOnlyPlan},
    options::{Args, MpAlloc, Options, Switch, peer},
    tester::inject::Inject,
    topology::Topology,
};
use linerate_mbuf::DEFAULT_HEADROOM;
use linerate_mem::{CoreId, NumaNode, PagePreference};
use linerate_net::MacAddr;
use linerate_port::{PortId, PortSpec};
use std::{
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

/// Ports of a run without `--port`.
pub(super) const BUILT_IN_PORTS: usize = 2;
/// Bytes of an Ethernet header and check sequence: what `--max-pkt-len` counts beyond the MTU.
const FRAME_OVERHEAD: u32 = 14 + 4;

/// A run as it is wanted.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The ports; empty = two ports inside the process, with the tester at their far ends.
    pub ports: Vec<PortSpec>,
    /// Numbers of the ports that forward, in order.
    pub forward: Vec<usize>,
    pub mode: ModeName,
    pub topology: Topology,
    /// Until then; `None` = until it is told to stop.
    pub duration: Option<Duration>,
    /// `None` = what the first port prefers.
    pub burst: Option<u16>,
    pub cores: usize,
    /// Cores to be used, if they are named.
    pub core_list: Option<Vec<CoreId>>,
    pub queues: (u16, u16),
    pub descriptors: (u16, u16),
    pub data_room: u16,
    pub cache: u32,
    pub buffers: Option<u32>,
    /// `None` = 1500, or what fits.
    pub mtu: Option<u32>,
    pub scatter: bool,
    pub pages: PagePreference,
    /// Node of the buffers; `None` = that of the ports.
    pub node: Option<NumaNode>,
    pub numa: bool,
    pub txonly: TxOnlyPlan,
    pub flowgen: FlowgenPlan,
    pub noisy: NoisyPlan,
    pub csum: CsumPlan,
    /// Peers by port, where they are named.
    pub peers: Vec<Option<MacAddr>>,
    pub flush_rx: bool,
    pub tx_first: u32,
    pub retries: u32,
    pub retry_delay: Duration,
    pub record_cycles: bool,
    pub record_bursts: bool,
    pub stats_period: Option<Duration>,
    pub xstats: Vec<String>,
    pub json: Option<PathBuf>,
    pub frame_size: u16,
    pub inject: Option<Inject>,
    /// A prompt, if one is wanted.
    pub prompt: Option<PromptPlan>,
}

/// How a run with a prompt begins.
#[derive(Clone, Debug)]
pub(super) struct PromptPlan {
    /// Forward at once.
    pub auto_start: bool,
    /// Files with commands, each with whether they are shown.
    pub files: Vec<(PathBuf, bool)>,
}

/// Most files with commands.
const MAX_COMMAND_FILES: usize = 16;

impl Plan {
    /// Checks options against each other.
    ///
    /// # Errors
    ///
    /// The first that is wrong.
    pub fn new(Args { options }: Args) -> Result<Plan, TestpmdError> {
        let args = *options;
        let ports = args
            .ports
            .iter()
            .map(|text| {
                let spec: PortSpec = text.parse()?;
                spec.resolve(linerate_drivers::DRIVERS)?;
                Ok(spec)
            })
            .collect::<Result<Vec<_>, linerate_port::SpecError>>()
            .map_err(|e| TestpmdError::Port { spec: e.text.clone(), source: e.into() })?;
        let built_in = ports.is_empty();
        let count = if built_in { BUILT_IN_PORTS } else { ports.len() };
        if count > usize::from(u16::MAX) {
            return Err(option("--port", format!("{count} ports"), "give at most 65535"));
        }
        let data_room = args.mbuf_size - DEFAULT_HEADROOM;
        let plan = Plan {
            forward: forward_ports(&args, count)?,
            peers: peers(&args, count)?,
            mode: args.forward_mode,
            topology: args.forward_mode.topology(args.port_topology),
            duration: (!args.duration.is_zero()).then_some(args.duration),
            burst: (args.burst != 0).then_some(args.burst),
            cores: args.nb_cores.into(),
            core_list: args.cores.map(|l| l.iter().map(CoreId).collect()),
            queues: (args.rxq, args.txq),
            descriptors: (args.rxd, args.txd),
            data_room,
            cache: args.mbcache,
            buffers: args.total_num_mbufs,
            mtu: args.max_pkt_len.map(|len| u32::from(len) - FRAME_OVERHEAD),
            scatter: args.enable_scatter,
            pages: match args.mp_alloc {
                MpAlloc::Native if !args.no_huge => PagePreference::Auto,
                _ => PagePreference::Ordinary,
            },
            node: args.socket_num.map(NumaNode),
            numa: !args.no_numa,
            flowgen: FlowgenPlan {
                total: args.txpkts.iter().map(|&len| usize::from(len)).sum(),
                flows: args.flowgen_flows,
                clones: args.flowgen_clones,
            },
            noisy: NoisyPlan {
                forward: args.noisy_forward_mode,
                fifo: args.noisy_tx_sw_buffer_size,
                flush_ms: args.noisy_tx_sw_buffer_flushtime,
                memory: args.noisy_lkup_memory,
                reads: args.noisy_lkup_num_reads,
                writes: args.noisy_lkup_num_writes,
                reads_writes: args.noisy_lkup_num_reads_writes,
            },
            txonly: TxOnlyPlan {
                segments: args.txpkts,
                split: args.txsplit,
                flows: if args.txonly_multi_flow { args.txonly_flows } else { 0 },
                addresses: args.tx_ip,
                ports: args.tx_udp,
            },
            csum: CsumPlan {
                parse_tunnel: args.csum_parse_tunnel,
                mac_rewrite: args.csum_mac_swap == Switch::On,
            },
            flush_rx: !args.no_flush_rx,
            tx_first: args.tx_first.unwrap_or(0),
            retries: if args.retry { args.burst_tx_retry } else { 0 },
            retry_delay: Duration::from_micros(args.burst_tx_delay.into()),
            record_cycles: args.record_core_cycles,
            record_bursts: args.record_burst_stats,
            stats_period: args.stats_period.map(|s| Duration::from_secs(s.into())),
            xstats: args.display_xstats,
            json: args.json,
            frame_size: args.frame_size,
            inject: args.inject,
            prompt: args.interactive.then(|| PromptPlan {
                auto_start: args.auto_start,
                files: (args.cmdline_file.into_iter().map(|f| (f, true)))
                    .chain(args.cmdline_file_noecho.into_iter().map(|f| (f, false)))
                    .collect(),
            }),
            ports,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Whether the tester runs.
    pub fn built_in(&self) -> bool {
        self.ports.is_empty()
    }

    /// Holds the parts of the plan against each other, as `new` does: for a plan that was changed.
    ///
    /// # Errors
    ///
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), TestpmdError> {
        if self.makes_packets() {
            self.txonly.check(self.data_room)?;
        }
        if self.mode == ModeName::Noisy {
            self.noisy.check()?;
        }
        if self.mode == ModeName::Flowgen {
            self.flowgen.check(self.data_room)?;
            if self.built_in() {
                let why = "the built-in tester does not know the packets that flowgen makes";
                return Err(option("--forward-mode flowgen", why, "name ports: --port null --port null"));
            }
        }
        if let Some(count) = self.prompt.as_ref().map(|p| p.files.len()).filter(|&n| n > MAX_COMMAND_FILES) {
            let hint = "let one file `load` the others";
            return Err(option(
                "--cmdline-file",
                format!("{count} files; at most {MAX_COMMAND_FILES}"),
                hint,
            ));
        }
        let threads = self.cores;
        if let Some(list) = &self.core_list
            && list.len() < threads
        {
            let why = format!("{} cores are named, --nb-cores wants {threads}", list.len());
            return Err(option("--cores", why, "name more cores, or give a smaller --nb-cores"));
        }
        if self.built_in() {
            if self.tx_first > 0 {
                let why = "the built-in tester would take the packets for changed ones of its own";
                return Err(option("--tx-first", why, "leave it out, or name ports: --port ring:r0"));
            }
            if self.frame_size > self.data_room {
                let why = format!("{} bytes; a buffer holds {}", self.frame_size, self.data_room);
                return Err(option(
                    "--frame-size",
                    why,
                    "give a larger --mbuf-size (128 bytes of it are headroom)",
                ));
            }
            if self.inject.is_some() && !self.mode.sends_back() {
                let why = format!("nothing comes back to the tester in the mode {}", self.mode.as_str());
                return Err(option("--inject", why, "choose another --forward-mode"));
            }
        }
        Ok(())
    }

    /// The mode whose effect on the bytes of a packet this run has.
    pub fn rewrite(&self) -> ModeName {
        if self.mode == ModeName::Noisy { self.noisy.forward.mode() } else { self.mode }
    }

    /// Whether packets are made from `--txpkts`.
    pub fn makes_packets(&self) -> bool {
        self.mode == ModeName::Txonly || self.tx_first > 0 || self.prompt.is_some()
    }
}

fn option(option: &'static str, why: impl Into<String>, hint: impl Into<String>) -> TestpmdError {
    TestpmdError::Option { option, why: why.into(), hint: hint.into() }
}

/// A port's number, read wide and held against those there are (bug case 37).
fn port_number(name: &'static str, text: &str, count: usize) -> Result<usize, TestpmdError> {
    PortId::parse_below(text, count)
        .map(PortId::index)
        .map_err(|why| option(name, why, "ports are numbered from 0 in the order of --port"))
}

fn forward_ports(args: &Options, count: usize) -> Result<Vec<usize>, TestpmdError> {
    let all = 0..count;
    let Some(text) = &args.portlist else {
        let wanted = args.nb_ports.map_or(count, usize::from);
        if wanted > count {
            let why = format!("{wanted} ports are wanted, there are {count}");
            return Err(option("--nb-ports", why, format!("give 1 to {count}")));
        }
        return Ok(all.take(wanted).collect());
    };
    port_list("--portlist", text, count)
}

/// Ports as a list names them, in its order, each below `count`.
///
/// # Errors
///
/// A number that is no port, a range that runs backwards, a port named twice.
pub(super) fn port_list(name: &'static str, text: &str, count: usize) -> Result<Vec<usize>, TestpmdError> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').filter(|(from, _)| !from.is_empty()).unwrap_or((part, part));
        let (from, to) = (port_number(name, from, count)?, port_number(name, to, count)?);
        if from > to {
            return Err(option(name, format!("{part:?} runs backwards"), "write the smaller number first"));
        }
        for port in from..=to {
            if list.contains(&port) {
                return Err(option(name, format!("port {port} is named twice"), "name it once"));
            }
            list.push(port);
        }
    }
    Ok(list)
}

/// Most bytes of a file of peers.
const MAX_PEERS_FILE: u64 = 1 << 20;

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(MAX_PEERS_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_PEERS_FILE {
        return Err(std::io::Error::other(format!("more than {MAX_PEERS_FILE} bytes")));
    }
    Ok(text)
}

fn peers(args: &Options, count: usize) -> Result<Vec<Option<MacAddr>>, TestpmdError> {
    let mut peers = vec![None; count];
    if let Some(path) = &args.eth_peers_configfile {
        let text = read_bounded(path).map_err(|source| TestpmdError::File {
            option: "--eth-peers-configfile",
            path: path.clone(),
            source,
        })?;
        let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
        let lines = lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
        for (port, (line, mac)) in lines.enumerate() {
            let wrong = |why: String| TestpmdError::Line { path: path.clone(), line, why };
            let mac: MacAddr =
                mac.parse().map_err(|e: linerate_net::ether::MacParseError| wrong(e.to_string()))?;
            if !mac.is_assignable() {
                return Err(wrong(format!("{mac} is no station's address")));
            }
            // A file may serve for more ports than this run has.
            if let Some(slot) = peers.get_mut(port) {
                *slot = Some(mac);
            }
        }
    }
    for text in &args.eth_peer {
        let hint = "write PORT,MAC, such as 0,02:00:00:00:00:01";
        let (port, mac) = peer(text).map_err(|why| option("--eth-peer", format!("{text:?}: {why}"), hint))?;
        peers[port_number("--eth-peer", port, count)?] = Some(mac);
    }
    Ok(peers)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches};

    pub fn plan(args: &[&str]) -> Result<Plan, TestpmdError> {
        let command = Args::augment_args(Command::new("testpmd"));
        let matches =
            command.try_get_matches_from([&["testpmd"], args].concat()).expect("options that can be read");
        Plan::new(Args::from_arg_matches(&matches).unwrap())
    }

    fn refused(args: &[&str]) -> String {
        let e = plan(args).map(|_| ()).expect_err("a bad plan");
        assert!(!e.hint().is_empty());
        format!("{e}")
    }

    // Bug case 37: a number cut to eight or sixteen bits acted on port 0.
    #[test]
    fn port_numbers_are_read_wide() {
        for n in ["2", "256", "65535", "65536", "-1", "4294967296", "18446744073709551616", "x", ""] {
            for args in [format!("--portlist={n}"), format!("--eth-peer={n},02:00:00:00:00:09")] {
                let e = refused(&["--port=null", "--port=null", &args]);
                assert!(e.contains("allowed are 0 to 1"), "{args}: {e}");
            }
        }
        assert!(refused(&["--port=null", "--nb-ports=2"]).contains("there are 1"));
        assert!(plan(&["--portlist=31"]).is_err());
    }

    #[test]
    fn lists_of_ports_keep_their_order() {
        let four = ["--port=null", "--port=null", "--port=null", "--port=null"];
        let with = |more: &str| plan(&[&four[..], &[more]].concat()).unwrap().forward;
        assert_eq!(with("--portlist=3,0-1"), [3, 0, 1]);
        assert_eq!(with("--nb-ports=2"), [0, 1]);
        assert_eq!(plan(&four).unwrap().forward, [0, 1, 2, 3]);
        assert!(refused(&[&four[..], &["--portlist=1,0-2"]].concat()).contains("twice"));
        assert!(refused(&[&four[..], &["--portlist=2-1"]].concat()).contains("backwards"));
    }

    #[test]
    fn a_file_of_peers_without_end_is_refused() {
        assert!(refused(&["--eth-peers-configfile=/dev/zero"]).contains("more than 1048576 bytes"));
    }

    #[test]
    fn a_bad_port_points_at_the_key() {
        let e = refused(&["--port=null:sz=64"]);
        assert!(e.contains("has no key \"sz\"") && e.contains("\n  null:sz=64\n       ^^"), "{e}");
        assert!(plan(&["--port=nul"]).unwrap_err().hint().contains("did you mean `null`"));
    }

    // Bug case 38.
    #[test]
    fn lengths_that_make_no_packet_are_refused() {
        let tx = |more: &[&str]| plan(&[&["--port=null", "--forward-mode=txonly"], more].concat());
        for bad in [
            &["--txpkts=100,0,100"][..],
            &["--txpkts=41"],
            &["--txpkts=20,80", "--txsplit=rand"],
            &["--txpkts=20,80", "--txonly-multi-flow"],
            &["--txpkts=2049"],
            &["--txpkts=40000", "--mbuf-size=2176"],
            &["--txpkts=40000,40000", "--mbuf-size=65535"],
        ] {
            assert!(matches!(tx(bad), Err(TestpmdError::TxPackets { .. })), "{bad:?}");
        }
        assert!(tx(&["--txpkts=20,80"]).is_ok());
        assert!(tx(&["--txpkts=2048,2048,2048,2048", "--txsplit=rand"]).is_ok());
        // Not needed, not looked at.
        assert!(plan(&["--port=null", "--txpkts=1"]).is_ok());
    }

    #[test]
    fn what_does_not_go_with_the_tester_is_refused() {
        assert!(refused(&["--tx-first"]).contains("tester"));
        assert!(refused(&["--frame-size=2049"]).contains("2048"));
        assert!(plan(&["--frame-size=9000", "--mbuf-size=9400"]).is_ok());
        assert!(refused(&["--inject=drop=9", "--forward-mode=rxonly"]).contains("rxonly"));
        assert!(refused(&["--cores=0", "--nb-cores=2"]).contains("1 cores are named"));
    }

    #[test]
    fn peers_come_from_options_and_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let arg = format!("--eth-peers-configfile={}", file.path().display());
        std::fs::write(file.path(), "# peers\n02:00:00:00:00:0a\n\n02-00-00-00-00-0b\n02:00:00:00:00:0c\n")
            .unwrap();
        let p = plan(&[&arg, "--eth-peer=1,02:00:00:00:00:99"]).unwrap();
        assert_eq!(p.peers, [Some(MacAddr::peer(0xa)), Some(MacAddr::peer(0x99))]);
        std::fs::write(file.path(), "02:00:00:00:00:0a\n01:00:5e:00:00:01\n").unwrap();
        assert!(refused(&[&arg]).contains(":2: "));
        assert!(refused(&["--eth-peers-configfile=/does/not/exist"]).contains("/does/not/exist"));
    }
}
