//! Which core does what.

use super::error::TestpmdError;
use linerate_mem::{CoreError, CoreId, allowed_cores, current_core};

/// The cores of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// Those that forward, in order.
    pub forward: Vec<CoreId>,
    /// The tester's own, if there is one left for it.
    pub tester: Option<CoreId>,
}

impl Cores {
    /// Chooses `wanted` cores to forward, and one for the tester: from `named`, or from all that are allowed,
    /// beginning with the one that the program was started on.
    ///
    /// # Errors
    ///
    /// A named core is not allowed, or there are too few.
    pub fn choose(wanted: usize, tester: bool, named: Option<&[CoreId]>) -> Result<Self, TestpmdError> {
        let mut list = allowed_cores()?;
        match named {
            Some(named) => {
                if let Some(&core) = named.iter().find(|c| !list.contains(c)) {
                    let allowed = list.iter().map(|c| c.0).collect();
                    return Err(CoreError::NotAllowed { core, allowed }.into());
                }
                list = named.to_vec();
            }
            None => {
                let here = current_core();
                let at = list.iter().position(|&c| c == here).unwrap_or(0);
                list.rotate_left(at);
            }
        }
        if list.len() < wanted {
            return Err(TestpmdError::Cores { wanted, have: list.len() });
        }
        let rest = list.split_off(wanted);
        Ok(Cores { forward: list, tester: rest.first().copied().filter(|_| tester) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_taken_in_order_and_the_next_one_tests() {
        let all = allowed_cores().unwrap();
        let one = Cores::choose(1, false, Some(&all)).unwrap();
        assert_eq!((one.forward, one.tester), (vec![all[0]], None));
        let tested = Cores::choose(1, true, Some(&all)).unwrap();
        assert_eq!(tested.tester, all.get(1).copied());
        let every = Cores::choose(all.len(), true, None).unwrap();
        assert_eq!((every.forward.len(), every.tester), (all.len(), None));
        assert!(matches!(
            Cores::choose(all.len() + 1, false, None),
            Err(TestpmdError::Cores { have, .. }) if have == all.len()
        ));
        let no_such = Cores::choose(1, false, Some(&[CoreId(8000)])).unwrap_err();
        assert!(no_such.to_string().contains("8000"));
    }
}
