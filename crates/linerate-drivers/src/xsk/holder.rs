//! Which process holds what we want: read from `/proc`, on the way to an error message only.

use std::{fs, path::Path};

/// Which process holds the link of the XDP program with this number, such as `xdpsock (pid 4711)`.
pub(super) fn of_program(id: u32) -> Option<String> {
    let wanted = format!("prog_id:\t{id}");
    find(|process| {
        let Ok(dir) = fs::read_dir(process.join("fdinfo")) else { return false };
        dir.flatten().any(|fd| {
            let Ok(info) = fs::read_to_string(fd.path()) else { return false };
            info.lines().any(|l| l == "link_type:\txdp") && info.lines().any(|l| l == wanted)
        })
    })
}

/// Which process has AF_XDP sockets, as far as can be seen: it has mapped a socket that is none of AF_PACKET's.
pub(super) fn of_sockets() -> Option<String> {
    find(|process| {
        let Ok(maps) = fs::read_to_string(process.join("maps")) else { return false };
        let mut inodes =
            maps.lines().filter_map(|l| l.rsplit_once("socket:[")?.1.strip_suffix(']')).peekable();
        if inodes.peek().is_none() {
            return false;
        }
        let packet = fs::read_to_string(process.join("net/packet")).unwrap_or_default();
        inodes.any(|i| !packet.lines().any(|l| l.split_whitespace().last() == Some(i)))
    })
}

fn find(is_it: impl Fn(&Path) -> bool) -> Option<String> {
    let mut processes: Vec<(u32, _)> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path())))
        .collect();
    processes.sort();
    let (pid, path) = processes.into_iter().find(|(_, path)| is_it(path))?;
    let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
    let own = if pid == std::process::id() { ", this process" } else { "" };
    Some(format!("{} (pid {pid}{own})", name.trim()))
}
