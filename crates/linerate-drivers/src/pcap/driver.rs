//! The port: which files it has, and the queues that are made of them.

use linerate_port::{
    Capabilities, DriverContext, DriverEntry, EventSink, KeyInfo, Limits, LinkCause, MacAddress, PortConfig,
    PortDriver, PortError, PortInfo, PortSpec, RssTypes, RxContext, RxDriver, RxOffloads, TxContext,
    TxDriver, TxOffloads, Xstat, stats::Counter,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::claim::{Claim, Taken};
use super::error::FileError;
use super::file::{FileRx, NoRx};
use super::fill::Buffers;
use super::format::{
    CaptureFormat, CaptureInput, CaptureReader, MAX_CAPTURED, PcapError, Resolution, WriterOptions,
};
use super::output::{Output, Refused};
use super::packets::{Packets, memory_limit};
use super::replay::ReplayRx;
use super::tx::{DropTx, FileTx};

const RX: &str = "rx_pcap";
const TX: &str = "tx_pcap";
const INFINITE: &str = "infinite_rx";
const SNAPLEN: &str = "tx_snaplen";
const TIME: &str = "tx_time";

/// The driver as it is found by name; keys are DPDK's where DPDK has them.
pub const ENTRY: DriverEntry = DriverEntry {
    name: "pcap",
    help: "receives from capture files and sends into capture files",
    device: None,
    device_required: false,
    keys: &[
        KeyInfo {
            name: RX,
            value: "FILE|-",
            help: "capture to receive, pcap or pcapng; one queue each",
            repeats: true,
        },
        KeyInfo {
            name: TX,
            value: "FILE|-",
            help: "capture to send into, pcapng when so named; one queue each; none = drop",
            repeats: true,
        },
        KeyInfo {
            name: INFINITE,
            value: "0|1",
            help: "replay the captures from memory for ever",
            repeats: false,
        },
        KeyInfo {
            name: SNAPLEN,
            value: "N (262144)",
            help: "most bytes written of a packet",
            repeats: false,
        },
        KeyInfo { name: TIME, value: "ns|us", help: "unit of the times written", repeats: false },
    ],
    open,
};

/// Link speed that is told, as DPDK's: no medium limits a file.
const SPEED_MBPS: u32 = 10_000;

#[derive(Debug)]
struct PcapPort {
    name: String,
    mac: MacAddress,
    events: EventSink,
    infinite: bool,
    rx: Vec<RxFile>,
    tx: Vec<TxFile>,
    /// Frames that no buffer holds, a counter a queue.
    too_long: Vec<Arc<Counter>>,
    options: WriterOptions,
}

#[derive(Debug)]
struct RxFile {
    path: PathBuf,
    claim: Arc<Claim>,
    /// Opened and looked at with the port; the first queue made of it takes it.
    reader: Option<CaptureReader<CaptureInput>>,
}

#[derive(Debug)]
struct TxFile {
    path: PathBuf,
    file: Output,
}

fn open(spec: &PortSpec, context: DriverContext) -> Result<Box<dyn PortDriver>, PortError> {
    let infinite = spec.switch(INFINITE, false)?;
    let snaplen = spec.number(SNAPLEN, MAX_CAPTURED.into(), 1..=MAX_CAPTURED.into())? as u32;
    let resolution = match spec.value(TIME) {
        None | Some("ns") => Resolution::Nano,
        Some("us") => Resolution::Micro,
        Some(v) => {
            return Err(spec
                .bad_value(TIME, format!("{TIME}={v}: wanted ns or us"), format!("write {TIME}=ns"))
                .into());
        }
    };
    let (rx, tx): (Vec<_>, Vec<_>) = (spec.values(RX).collect(), spec.values(TX).collect());
    if rx.is_empty() && tx.is_empty() {
        let what = format!("driver pcap needs a file: {RX}=FILE, {TX}=FILE or both");
        return Err(spec.bad_value(RX, what, format!("write pcap:{RX}=FILE")).into());
    }
    if infinite && rx.is_empty() {
        let what = format!("{INFINITE}=1 needs a capture to replay");
        return Err(spec.bad_value(INFINITE, what, format!("add {RX}=FILE")).into());
    }
    for (key, files) in [(RX, &rx), (TX, &tx)] {
        if files.iter().any(|f| f.is_empty()) {
            return Err(spec
                .bad_value(key, format!("{key} names no file"), format!("write {key}=FILE"))
                .into());
        }
        if files.iter().filter(|&&f| f == "-").count() > 1 {
            return Err(spec
                .bad_value(key, "a stream can be used once", format!("write {key}=- once"))
                .into());
        }
        if files.len() > usize::from(Limits::SOFTWARE.max_rx_queues) {
            let what = format!("{key} is given {} times", files.len());
            let hint = format!("give it at most {} times", Limits::SOFTWARE.max_rx_queues);
            return Err(spec.bad_value(key, what, hint).into());
        }
    }
    // First all that is read, so that nothing is created for a port that cannot be made.
    let rx = rx.into_iter().map(|f| open_rx(f.into(), spec, &context)).collect::<Result<Vec<_>, _>>()?;
    let tx = tx.into_iter().map(|f| open_tx(f.into(), spec, &context)).collect::<Result<Vec<_>, _>>()?;
    let options = WriterOptions { format: None, resolution, snaplen };
    let mac = MacAddress([2, 0x70, 0x63, 0x61, (context.port.0 >> 8) as u8, context.port.0 as u8]);
    let (name, events) = (spec.name(), context.events);
    Ok(Box::new(PcapPort {
        name,
        mac,
        events,
        infinite,
        too_long: rx.iter().map(|_| Arc::default()).collect(),
        rx,
        tx,
        options,
    }))
}

fn open_rx(path: PathBuf, spec: &PortSpec, context: &DriverContext) -> Result<RxFile, PortError> {
    let fail = |e| FileError::new(&path, e).at(context.port);
    let reader = CaptureReader::open(&path).map_err(fail)?;
    let metadata = reader.input().file().metadata();
    let metadata = metadata.map_err(|source| fail(PcapError::Open { path: path.clone(), source }))?;
    let claim = Claim::new(&metadata, false, &path, context.port);
    let claim = Arc::new(claim.map_err(|taken| same_file(spec, RX, &path, &taken, context))?);
    Ok(RxFile { path, claim, reader: Some(reader) })
}

/// Opens a file to write and leaves what is in it: that goes with the first write.
fn open_tx(path: PathBuf, spec: &PortSpec, context: &DriverContext) -> Result<TxFile, PortError> {
    match Output::open(&path, context.port) {
        Ok(file) => Ok(TxFile { path, file }),
        Err(Refused::System(e)) => Err(create_error(&path, e).at(context.port)),
        Err(Refused::Taken(taken)) => Err(same_file(spec, TX, &path, &taken, context)),
    }
}

/// A file that is written can have no other use.
fn same_file(spec: &PortSpec, key: &str, path: &Path, taken: &Taken, context: &DriverContext) -> PortError {
    let other = if taken.writes { TX } else { RX };
    let of = if taken.port == context.port { String::new() } else { format!(" of port {}", taken.port) };
    let what = format!("{key}={} is the same file as {other}={}{of}", path.display(), taken.path.display());
    let hint =
        if key == TX { "write to another file" } else { "receive from a copy, or write to another file" };
    spec.bad_value(key, what, hint).into()
}

fn create_error(path: &Path, source: io::Error) -> FileError {
    FileError::Open(PcapError::Create { path: path.to_owned(), source })
}

impl PortDriver for PcapPort {
    fn info(&self) -> PortInfo {
        let any = Limits::SOFTWARE;
        let queues = |files: usize, any| if files == 0 { any } else { files as u16 };
        let mut capabilities = Capabilities::SCATTER
            | Capabilities::MULTI_SEGMENT
            | Capabilities::SHARED_BUFFERS
            | Capabilities::QUEUE_STOP
            | Capabilities::RX_PROGRAM
            | Capabilities::BYTE_COUNTS;
        capabilities.set(Capabilities::FINITE_INPUT, !self.infinite && !self.rx.is_empty());
        PortInfo {
            name: self.name.clone(),
            driver: ENTRY.name,
            mac: self.mac,
            node: None,
            capabilities,
            rx_offloads: RxOffloads::SCATTER | RxOffloads::TIMESTAMP,
            tx_offloads: TxOffloads::MULTI_SEGS,
            rss_types: RssTypes::empty(),
            limits: Limits {
                max_rx_queues: queues(self.rx.len(), any.max_rx_queues),
                max_tx_queues: queues(self.tx.len(), any.max_tx_queues),
                ..any
            },
        }
    }

    fn configure(&mut self, _config: &PortConfig) -> Result<(), PortError> {
        Ok(())
    }

    fn rx_queue(&mut self, context: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        let port = context.port;
        if self.rx.is_empty() {
            return Ok(Box::new(NoRx));
        }
        let Some(file) = self.rx.get_mut(context.queue.index()) else {
            let (wanted, max) = (context.queue.0.into(), self.rx.len() as u64 - 1);
            return Err(PortError::Range { port, what: "receive queue", wanted, min: 0, max });
        };
        let mut reader = match file.reader.take() {
            Some(reader) => reader,
            None => CaptureReader::open(&file.path).map_err(|e| FileError::new(&file.path, e).at(port))?,
        };
        let too_long = self.too_long.get(context.queue.index()).cloned().unwrap_or_default();
        let buffers = Buffers::new(&context);
        if !self.infinite {
            return Ok(Box::new(FileRx::new(
                context,
                buffers,
                self.events.clone(),
                file.path.clone(),
                reader,
                file.claim.clone(),
                too_long,
            )));
        }
        let loaded = Packets::load(&file.path, &mut reader, memory_limit(), buffers.longest(), buffers.stamp);
        let (packets, left_out) = loaded.map_err(|e| e.at(port))?;
        context.counters.errors.add(left_out.empty + left_out.too_long);
        too_long.add(left_out.too_long);
        Ok(Box::new(ReplayRx::new(context, buffers, packets)))
    }

    fn tx_queue(&mut self, context: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        let port = context.port;
        if self.tx.is_empty() {
            return Ok(Box::new(DropTx::new(context)));
        }
        let Some(TxFile { path, file }) = self.tx.get(context.queue.index()) else {
            let (wanted, max) = (context.queue.0.into(), self.tx.len() as u64 - 1);
            return Err(PortError::Range { port, what: "transmit queue", wanted, min: 0, max });
        };
        let file = file.try_clone().map_err(|e| create_error(path, e).at(port))?;
        let options = WriterOptions { format: Some(CaptureFormat::of_name(path)), ..self.options };
        Ok(Box::new(FileTx::new(context, self.events.clone(), path.clone(), options, file)))
    }

    fn start(&mut self) -> Result<(), PortError> {
        self.events.link(true, Some(SPEED_MBPS), LinkCause::Started);
        Ok(())
    }

    fn stop(&mut self) {
        self.events.link(false, Some(SPEED_MBPS), LinkCause::Stopped);
    }

    /// `rx_too_long`: frames of the captures that were dropped because no buffer holds them and scatter is off.
    /// They are among the receive errors.
    fn xstats(&self) -> Vec<Xstat> {
        let value = self.too_long.iter().map(|c| c.get()).sum();
        vec![Xstat { name: "rx_too_long".into(), value }]
    }

    fn close(&mut self) {
        self.rx.clear();
        self.tx.clear();
    }
}
