//! The threads of a run: started with their streams, joined with what they have counted.

use super::{
    cores::Cores,
    engine::{Core, CoreRun, Mode, Phase, Settings, Stream},
    error::TestpmdError,
    report::{CoreResult, StreamResult},
    streams::StreamPlan,
    tester::{Tester, TesterCounts},
};
use linerate_mem::{CoreId, pin_current_thread};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle, Thread},
};

/// A stream's results, without its queues.
struct StreamDone {
    number: usize,
    result: StreamResult,
}

/// What a forwarding thread leaves behind.
pub(super) struct CoreDone {
    run: CoreRun,
    streams: Vec<StreamDone>,
    tester: Option<TesterCounts>,
}

/// A thread of a run.
type Handle<R> = JoinHandle<Result<R, TestpmdError>>;

/// The threads of a run.
pub(super) struct Threads {
    /// With each its core and its streams.
    pub forward: Vec<(CoreId, Range<usize>, Handle<CoreDone>)>,
    tester: Option<Handle<TesterCounts>>,
    /// The tester has got all that is on its way.
    pub drained: Option<Arc<AtomicBool>>,
    pub phase: Arc<Phase>,
    /// A thread has ended as it should not.
    pub broken: Arc<AtomicBool>,
}

impl Threads {
    /// Starts them all: each core gets its part of the streams, and the tester a core of its own or the first.
    ///
    /// # Errors
    ///
    /// The system refuses a thread; those that run already are stopped.
    pub fn launch<M: Mode>(
        cores: &Cores,
        plans: &[StreamPlan],
        streams: Vec<Stream<M>>,
        parts: Vec<Range<usize>>,
        mut tester: Option<Tester>,
        settings: Settings,
    ) -> Result<Threads, TestpmdError> {
        let (phase, broken) = (Arc::new(Phase::new()), Arc::new(AtomicBool::new(false)));
        let mut threads = Threads {
            forward: Vec::new(),
            tester: None,
            drained: tester.as_ref().map(Tester::done),
            phase: phase.clone(),
            broken: broken.clone(),
        };
        if let Some(tester) = &mut tester {
            tester.watch(streams.iter().map(|s| s.shown.clone()).collect());
        }
        let own_core = cores.tester;
        let main = thread::current();
        let mut streams = streams.into_iter().map(|mut s| {
            s.phase = phase.clone();
            s
        });
        for (index, part) in parts.into_iter().enumerate() {
            let core = cores.forward[index];
            let shared = if index == 0 && own_core.is_none() { tester.take() } else { None };
            let work = Core { streams: streams.by_ref().take(part.len()).collect(), tester: shared };
            let mine: Vec<_> = plans[part.clone()].to_vec();
            let (phase, guard) = (phase.clone(), EndGuard::new(&broken, &main));
            let spawned = thread::Builder::new()
                .name(format!("forward{index}"))
                .spawn(move || guard.watch(|| forward(core, work, &mine, &settings, &phase)));
            match spawned {
                Ok(handle) => threads.forward.push((core, part, handle)),
                Err(source) => {
                    threads.phase.set(Phase::STOP);
                    return Err(TestpmdError::System { what: "a forwarding thread", source });
                }
            }
        }
        if let (Some(mut tester), Some(core)) = (tester, own_core) {
            let (phase, guard) = (phase.clone(), EndGuard::new(&broken, &main));
            let spawned = thread::Builder::new().name("tester".into()).spawn(move || {
                guard.watch(|| {
                    pin_current_thread(core)?;
                    tester.run(&phase);
                    Ok(tester.counts())
                })
            });
            match spawned {
                Ok(handle) => threads.tester = Some(handle),
                Err(source) => {
                    threads.phase.set(Phase::STOP);
                    return Err(TestpmdError::System { what: "the tester's thread", source });
                }
            }
        }
        Ok(threads)
    }

    /// Waits for the threads and takes what they have counted.
    pub fn join(self) -> (Vec<CoreResult>, Vec<StreamResult>, Option<TesterCounts>, Vec<String>) {
        let (mut cores, mut streams, mut tester, mut faults) = (Vec::new(), Vec::new(), None, Vec::new());
        for (index, (core, part, handle)) in self.forward.into_iter().enumerate() {
            match handle.join().unwrap_or(Err(TestpmdError::Panicked { core: index })) {
                Ok(done) => {
                    let with_tester = done.tester.is_some();
                    cores.push(CoreResult { core, run: done.run, streams: part.len(), with_tester });
                    streams.extend(done.streams);
                    tester = tester.or(done.tester);
                }
                Err(e) => faults.push(format!("{e}\n  hint: {}", e.hint())),
            }
        }
        if let Some(handle) = self.tester {
            match handle.join().unwrap_or(Err(TestpmdError::Panicked { core: cores.len() })) {
                Ok(counts) => tester = Some(counts),
                Err(e) => faults.push(format!("{e}\n  hint: {}", e.hint())),
            }
        }
        streams.sort_by_key(|s: &StreamDone| s.number);
        (cores, streams.into_iter().map(|s| s.result).collect(), tester, faults)
    }
}

/// Wakes the watcher when a thread ends, and says so when it ends by a panic or an error.
struct EndGuard {
    broken: Arc<AtomicBool>,
    main: Thread,
}

impl EndGuard {
    fn new(broken: &Arc<AtomicBool>, main: &Thread) -> Self {
        EndGuard { broken: broken.clone(), main: main.clone() }
    }

    fn watch<R>(self, work: impl FnOnce() -> Result<R, TestpmdError>) -> Result<R, TestpmdError> {
        let done = work();
        if done.is_err() {
            self.broken.store(true, Relaxed);
        }
        done
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.broken.store(true, Relaxed);
        }
        self.main.unpark();
    }
}

/// A forwarding thread.
fn forward<M: Mode>(
    core: CoreId,
    mut work: Core<M>,
    plans: &[StreamPlan],
    settings: &Settings,
    phase: &Phase,
) -> Result<CoreDone, TestpmdError> {
    pin_current_thread(core)?;
    let run = work.run(settings, phase);
    let streams = work
        .streams
        .into_iter()
        .zip(plans)
        .map(|(s, &plan)| {
            let bad = s.mode.bad_checksums();
            let (counts, rx_bursts, tx_bursts) = (s.counts, s.rx_bursts, s.tx_bursts);
            StreamDone { number: s.number, result: StreamResult { plan, counts, bad, rx_bursts, tx_bursts } }
        })
        .collect();
    Ok(CoreDone { run, streams, tester: work.tester.map(|t| t.counts()) })
}
