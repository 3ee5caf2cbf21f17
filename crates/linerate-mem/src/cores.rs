//! Which processors this thread may run on, and staying on one.
//!
//! Follows `sched_setaffinity(2)` and `getcpu(2)`.

use std::fmt;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::ids::IdList;

/// A logical processor's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u32);

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a thread was not pinned.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The core does not exist, is offline, or is not among those this process may use.
    #[error("core {core} is not among the allowed cores {allowed}")]
    NotAllowed {
        /// The core asked for.
        core: CoreId,
        /// The cores that can be had.
        allowed: IdList,
    },
    /// The kernel refused for another reason.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl CoreError {
    /// What mends it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotAllowed { allowed, .. } => format!(
                "choose from {allowed}, or widen what the process may use (`taskset`, the container's cpuset)"
            ),
            Self::Os { source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
                "a system call filter forbids it: allow sched_setaffinity, or run without pinning".into()
            }
            Self::Os { .. } => "run without pinning".into(),
        }
    }
}

/// The cores that the calling thread may run on, ascending.
///
/// # Errors
/// [`CoreError::Os`] when the kernel does not tell, as on a machine of more than 1024 processors.
pub fn allowed_cores() -> Result<Vec<CoreId>, CoreError> {
    let set = affinity()?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| CoreId(cpu as u32)).collect())
}

fn affinity() -> Result<CpuSet, CoreError> {
    sched_getaffinity(None).map_err(|errno| CoreError::Os { call: "sched_getaffinity", source: errno.into() })
}

/// The core that the calling thread is on at this moment; the next may be another unless the thread is pinned.
#[must_use]
pub fn current_core() -> CoreId {
    CoreId(sched_getcpu() as u32)
}

/// Keeps the calling thread on `core` from now on. Threads that it starts later inherit this.
///
/// # Errors
/// [`CoreError::NotAllowed`] with the cores that can be had, or what the kernel says; the thread then runs where it
/// did before.
pub fn pin_current_thread(core: CoreId) -> Result<(), CoreError> {
    let not_allowed = || -> CoreError {
        let allowed = allowed_cores().unwrap_or_default().into_iter().map(|c| c.0).collect();
        CoreError::NotAllowed { core, allowed }
    };
    let cpu = core.0 as usize;
    if cpu >= CpuSet::MAX_CPU {
        return Err(not_allowed());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| match errno {
        rustix::io::Errno::INVAL => not_allowed(),
        other => CoreError::Os { call: "sched_setaffinity", source: other.into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pins threads of its own only: the test harness's threads must stay free.
    fn on_own_thread<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
        std::thread::spawn(f).join().unwrap()
    }

    #[test]
    fn pinned_to_each_allowed_core_it_is_there() {
        on_own_thread(|| {
            let allowed = allowed_cores().unwrap();
            assert!(!allowed.is_empty());
            for core in allowed {
                pin_current_thread(core).unwrap();
                assert_eq!(current_core(), core);
                assert_eq!(allowed_cores().unwrap(), [core]);
            }
        });
    }

    #[test]
    fn a_core_that_is_not_there_is_named_with_those_that_are() {
        on_own_thread(|| {
            let before = allowed_cores().unwrap();
            for core in [CoreId(1023), CoreId(1024), CoreId(u32::MAX)] {
                if before.contains(&core) {
                    crate::skip("a core that is not there", &format!("this machine has core {core}"));
                    continue;
                }
                let err = pin_current_thread(core).unwrap_err();
                assert!(matches!(err, CoreError::NotAllowed { .. }), "{err}");
                assert!(err.to_string().contains(&core.to_string()));
                assert!(err.hint().contains("taskset"));
            }
            assert_eq!(allowed_cores().unwrap(), before, "a refused pin changes nothing");
        });
    }
}
