//! The suite passes a correct driver, and fails every broken one by the name of the case that is about it.

use super::{
    case_names, run_all, run_some,
    script::{Bug, ScriptHarness},
};

#[test]
fn a_correct_driver_passes_every_case_that_applies() {
    let report = run_all(&ScriptHarness(Bug::None));
    report.assert_passed();
    assert_eq!(
        report.skipped.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        ["a finite input ends"],
        "{report}"
    );
    assert_eq!(report.passed.len() + 1, case_names().len());
}

/// Each way to be broken, and a case that must find it.
const BROKEN: &[(Bug, &str)] = &[
    (Bug::LeaksOnStop, "a hundred stops and starts"),
    (Bug::FreesTwice, "frames arrive whole and in order"),
    (Bug::ExceedsMax, "receive bursts of any size"),
    (Bug::DropsTail, "receive bursts of any size"),
    (Bug::RefillsAfterReceive, "a pool runs empty and is refilled"),
    (Bug::CountsFirstSegment, "packets of several segments are sent"),
    (Bug::StallsSmall, "receive bursts of any size"),
    (Bug::FreesInGroups, "idle calls free what was sent"),
    (Bug::DeadAfterRestart, "a hundred stops and starts"),
    (Bug::SaysAllTaken, "a full transmit ring leaves the rest"),
    (Bug::EmptiesBurst, "a full transmit ring leaves the rest"),
    (Bug::Reorders, "frames arrive whole and in order"),
    (Bug::CutsLong, "frames longer than a buffer without scatter"),
    (Bug::FlapsLink, "every link change is one event"),
    (Bug::IgnoresProgram, "a program decides in the receive path"),
    (Bug::KeepsShared, "shared and attached buffers are sent"),
    (Bug::MissesSilently, "a full receive ring keeps what it took"),
    (Bug::OneDescriptor, "any number of descriptors is made to fit"),
    (Bug::KeepsWaiting, "a hundred stops and starts"),
    (Bug::OneQueue, "several queues keep apart"),
];

#[test]
fn every_broken_driver_is_found() {
    for &(bug, case) in BROKEN {
        assert!(case_names().contains(&case), "no case {case}");
        let report = run_some(&ScriptHarness(bug), |name| name == case);
        assert!(report.failed.iter().any(|(name, _)| *name == case), "{bug:?} was not found:\n{report}");
    }
}

#[test]
fn a_report_tells_everything() {
    let wanted = ["receive bursts of any size", "idle calls free what was sent", "a finite input ends"];
    let report = run_some(&ScriptHarness(Bug::DropsTail), |n| wanted.contains(&n));
    let text = report.to_string();
    assert!(text.contains("script, DropsTail: 1 passed, 1 do not apply, 1 failed"), "{text}");
    assert!(
        text.contains("FAILED receive bursts of any size: received: 30 frames came, 31 should"),
        "{text}"
    );
    assert!(text.contains("does not apply: a finite input ends: its input does not end"), "{text}");
}
