//! What a tap port's description says.

use linerate_port::{KeyInfo, MacAddress, PortError, PortSpec};

/// The keys; names as DPDK's where it has one.
pub(super) const KEYS: &[KeyInfo] = &[
    KeyInfo { name: "queues", value: "N (1)", help: "most queues in each direction", repeats: false },
    KeyInfo {
        name: "mac",
        value: "ADDRESS (the kernel's choice)",
        help: "address of the interface",
        repeats: false,
    },
    KeyInfo { name: "persist", value: "0|1 (0)", help: "leave the interface behind", repeats: false },
    KeyInfo {
        name: "vnet_hdr",
        value: "0|1 (0)",
        help: "take long TCP and UDP frames from the kernel and cut them here",
        repeats: false,
    },
];

/// What a description says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) queues: u16,
    pub(super) mac: Option<MacAddress>,
    pub(super) persist: bool,
    pub(super) vnet: bool,
}

impl Options {
    pub(super) fn read(spec: &PortSpec) -> Result<Self, PortError> {
        let mac = match spec.value("mac") {
            None => None,
            Some(text) => {
                let parsed = text.parse::<MacAddress>();
                let hint = "write mac=02:00:00:00:00:01";
                let m = parsed.map_err(|e| spec.bad_value("mac", e.to_string(), hint))?;
                if !m.is_assignable() {
                    let what = format!("{m} is zero or a group, not the address of an interface");
                    return Err(spec.bad_value("mac", what, hint).into());
                }
                Some(m)
            }
        };
        Ok(Options {
            queues: spec.number("queues", 1, 1..=64)? as u16,
            mac,
            persist: spec.switch("persist", false)?,
            vnet: spec.switch("vnet_hdr", false)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_pointed_at() {
        for (text, what) in [
            ("tap:x,queues=0", "wanted a number from 1 to 64"),
            ("tap:x,mac=1:2:3", "1:2:3"),
            ("tap:x,mac=01:00:5e:00:00:01", "not the address of an interface"),
            ("tap:x,mac=00:00:00:00:00:00", "not the address of an interface"),
            ("tap:x,persist=yes", "wanted 0 or 1"),
        ] {
            let spec: PortSpec = text.parse().unwrap();
            let e = Options::read(&spec).expect_err(text);
            assert!(e.to_string().contains(what), "{text}: {e}");
            assert!(!e.hint().is_empty());
        }
    }
}
