//! The commands: what reading, completion and help are made from.

use super::{
    flow,
    grammar::{
        Part::{self, Choice, Mac, Mode, Number, Port, Ports, Rest, Switch, Text, Word},
        Values,
    },
    ports,
    session::{Done, Session},
    set, show,
};
use std::{fmt::Write, time::Duration};

/// A command.
pub(super) struct Row {
    pub parts: &'static [Part],
    pub help: &'static str,
    pub run: fn(&mut Session, &Values) -> Done,
}

const fn row(parts: &'static [Part], help: &'static str, run: fn(&mut Session, &Values) -> Done) -> Row {
    Row { parts, help, run }
}

/// All of them, in the order in which help lists them.
pub(super) const TABLE: &[Row] = &[
    row(&[Word("help")], "list the commands", |s, _| help(s, "")),
    row(&[Word("help"), Text("TOPIC")], "list those that begin with a word", |s, v| help(s, v.text(0))),
    row(&[Word("start")], "start forwarding", |s, _| s.start(0)),
    row(&[Word("start"), Word("tx_first")], "send a burst of made packets, then forward", |s, _| s.start(1)),
    row(
        &[Word("start"), Word("tx_first"), Number("N", 1, 65535)],
        "send N bursts of made packets, then forward",
        |s, v| s.start(v.number(0) as u32),
    ),
    row(&[Word("stop")], "stop forwarding and print the report", |s, _| s.stop()),
    row(
        &[Word("wait"), Number("SECONDS", 0, 86400)],
        "go on after so long, or when all inputs have ended",
        |s, v| {
            s.wait(Duration::from_secs(v.number(0)));
            Ok(())
        },
    ),
    row(&[Word("load"), Rest("FILE")], "carry out the commands of a file", |s, v| s.load(v.text(0), false)),
    row(&[Word("load_echo"), Rest("FILE")], "the same, and show them", |s, v| s.load(v.text(0), true)),
    row(&[Word("quit")], "stop, close the ports and end", |s, _| {
        s.end();
        Ok(())
    }),
    row(
        &[Word("show"), Word("port"), Choice(&["info", "summary", "stats", "xstats"]), Ports],
        "what ports are, and what they have moved",
        show::port,
    ),
    row(
        &[Word("show"), Word("config"), Choice(&["rxtx", "cores", "fwd", "txpkts"])],
        "what the next start uses",
        show::config,
    ),
    row(&[Word("show"), Word("fwd"), Word("stats"), Word("all")], "figures since the start", show::figures),
    row(
        &[Word("clear"), Word("port"), Choice(&["stats", "xstats"]), Ports],
        "set a port's counters to 0",
        set::clear_port,
    ),
    row(
        &[Word("clear"), Word("fwd"), Word("stats"), Word("all")],
        "count the figures of ports and drops from now on",
        |s, _| {
            s.clear_figures();
            Ok(())
        },
    ),
    row(&[Word("set"), Word("fwd"), Mode], "what the next start does to packets", set::mode),
    row(
        &[Word("set"), Word("fwd"), Mode, Word("retry")],
        "the same, offering again what was not taken",
        set::mode_retry,
    ),
    row(
        &[Word("set"), Word("burst"), Number("N", 1, 512)],
        "packets of a burst from the next start on",
        set::burst,
    ),
    row(
        &[
            Word("set"),
            Word("burst"),
            Word("tx"),
            Word("delay"),
            Number("MICROSECONDS", 0, 1_000_000),
            Word("retry"),
            Number("N", 1, 65535),
        ],
        "how offers are repeated where that is wanted",
        set::retries,
    ),
    row(
        &[Word("set"), Word("nbcore"), Number("N", 1, 128)],
        "forwarding cores of the next start",
        set::cores,
    ),
    row(&[Word("set"), Word("nbport"), Number("N", 1, 65535)], "forward the first N ports", set::ports),
    row(
        &[Word("set"), Word("portlist"), Text("X,Y-Z")],
        "which ports forward, in this order",
        set::port_list,
    ),
    row(
        &[Word("set"), Word("txpkts"), Text("A,B,...")],
        "bytes of each segment of a made packet",
        set::tx_packets,
    ),
    row(
        &[Word("set"), Word("flush_rx"), Switch],
        "whether a start throws away what lies in the queues",
        set::flush,
    ),
    row(
        &[Word("set"), Word("record-core-cycles"), Switch],
        "measure the cycles of calls that did work",
        set::cycles,
    ),
    row(
        &[Word("set"), Word("record-burst-stats"), Switch],
        "count how often a burst had which size",
        set::bursts,
    ),
    row(
        &[Word("set"), Word("xstats-hide-zero"), Switch],
        "leave counters of 0 out of `show port xstats`",
        set::hide,
    ),
    row(
        &[Word("show"), Word("port"), Port, Choice(&["mac", "reta", "rss-hash"])],
        "what a port is set to",
        ports::show_one,
    ),
    row(&[Word("set"), Word("promisc"), Ports, Switch], "take every frame", ports::promiscuous),
    row(&[Word("set"), Word("allmulti"), Ports, Switch], "take every multicast frame", ports::all_multicast),
    row(
        &[Word("set"), Word("eth-peer"), Port, Mac],
        "address of the station that a port sends to",
        ports::peer,
    ),
    row(
        &[Word("set"), Choice(&["link-up", "link-down"]), Word("port"), Port],
        "set a link up or down",
        ports::link,
    ),
    row(
        &[Word("mac_addr"), Choice(&["add", "remove"]), Port, Mac],
        "addresses that a port takes besides its own",
        ports::address,
    ),
    row(
        &[Word("rx_vlan"), Choice(&["add", "rm"]), Number("VLAN", 0, 4094), Ports],
        "VLANs that a port takes; with none, all",
        ports::vlan,
    ),
    row(
        &[Word("port"), Choice(&["start", "stop", "close"]), Ports],
        "start, stop or close ports",
        ports::life,
    ),
    row(
        &[Word("port"), Word("config"), Word("mtu"), Port, Number("BYTES", 0, 65535)],
        "MTU of a stopped port",
        ports::mtu,
    ),
    row(
        &[Word("port"), Word("config"), Word("all"), Choice(&["rxq", "txq"]), Number("N", 1, 1024)],
        "queues of all ports, which must be stopped",
        ports::queues,
    ),
    row(
        &[Word("port"), Word("config"), Word("all"), Choice(&["rxd", "txd"]), Number("N", 0, 65535)],
        "descriptors of all queues; the ports must be stopped",
        ports::queues,
    ),
    row(
        &[Word("port"), Word("config"), Word("all"), Word("rss"), Choice(ports::RSS_TYPES)],
        "what packets are spread over the queues by",
        ports::rss,
    ),
    row(
        &[Word("port"), Word("config"), Port, Word("rss"), Word("reta"), Rest("(HASH,QUEUE)")],
        "entries of a port's redirection table",
        ports::table,
    ),
    row(
        &[Word("flow"), Word("validate"), Port, Rest("RULE")],
        "see whether a port could take a rule",
        flow::validate,
    ),
    row(&[Word("flow"), Word("create"), Port, Rest("RULE")], "make a rule", flow::create),
    row(
        &[Word("flow"), Word("destroy"), Port, Word("rule"), Number("N", 0, 4_294_967_295)],
        "undo it",
        flow::destroy,
    ),
    row(
        &[Word("flow"), Word("query"), Port, Number("N", 0, 4_294_967_295), Word("count")],
        "what a rule has counted",
        flow::query,
    ),
    row(&[Word("flow"), Word("list"), Port], "the rules of a port", flow::list),
    row(&[Word("flow"), Word("flush"), Port], "undo all rules of a port", flow::flush),
    row(&[Word("dump_mempool")], "the pools and where their buffers are", ports::pools),
    row(&[Word("dump_mempool"), Text("NAME")], "one of them", ports::pools),
];

/// The parts of every row, in the table's order.
pub(super) fn rows() -> impl Iterator<Item = &'static [Part]> {
    TABLE.iter().map(|r| r.parts)
}

fn syntax(row: &Row) -> String {
    row.parts.iter().map(Part::shown).collect::<Vec<_>>().join(" ")
}

/// Lists the commands that begin with a word, or all.
fn help(s: &mut Session, topic: &str) -> Done {
    let first = |r: &&Row| matches!(r.parts.first(), Some(Part::Word(w)) if topic.is_empty() || *w == topic);
    let rows: Vec<_> = TABLE.iter().filter(first).collect();
    if rows.is_empty() {
        let mut topics: Vec<_> = TABLE.iter().filter_map(|r| r.parts.first()).map(Part::shown).collect();
        topics.dedup();
        return Err(format!("no command begins with {topic:?}\n  hint: allowed: {}", topics.join(", ")));
    }
    let mut t = String::new();
    for r in rows {
        _ = writeln!(t, "  {:<55} {}", syntax(r), r.help);
    }
    s.say(t.trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_with_a_word_have_help_and_are_told_apart() {
        for (i, r) in TABLE.iter().enumerate() {
            assert!(matches!(r.parts.first(), Some(Word(_))), "{}", syntax(r));
            assert!(!r.help.is_empty());
            let rest = r.parts.iter().position(|p| matches!(p, Rest(_)));
            assert!(rest.is_none_or(|at| at + 1 == r.parts.len()), "{}: the rest is the last", syntax(r));
            assert!(TABLE[..i].iter().all(|o| o.parts != r.parts), "{} twice", syntax(r));
        }
    }
}
