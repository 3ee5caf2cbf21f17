//! What the comparison needs from the machine: DPDK's packages, a compiler, huge pages, two cores; and the
//! programs of `bench/`, built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::process::{run, run_ok};

/// Huge pages of 2 MiB that must be free; what DPDK's testpmd with 32768 buffers and ours take at most.
const PAGES_NEEDED: u64 = 256;
/// Huge pages that are asked for when there are fewer.
const PAGES_WANTED: u64 = 512;
const PAGES_FILE: &str = "/proc/sys/vm/nr_hugepages";
/// The C programs in `bench/dpdk`.
const PROGRAMS: [&str; 3] = ["ring", "mempool", "mbuf"];

/// Where everything is.
#[derive(Debug)]
pub struct Places {
    /// The repository.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Our scratch folder in it: built programs, captures.
    pub scratch: PathBuf,
    /// A file in memory, for captures that are written at speed.
    pub output: PathBuf,
}

impl Places {
    /// Finds the places and makes the scratch folder.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => std::path::absolute(dir)?, // as cargo reads it
            None => root.join("target"),
        };
        let scratch = target.join("compare-dpdk");
        std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        let shm = Path::new("/dev/shm");
        let memory = if shm.is_dir() { shm } else { scratch.as_path() };
        let output = memory.join(format!("linerate-compare-{}.pcap", std::process::id()));
        Ok(Self { root: root.to_owned(), target, scratch, output })
    }

    /// A built program of `bench/`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.output); // there only when a row wrote it
    }
}

/// DPDK's version, after installing what is missing (as root) or saying what is (as anybody else).
///
/// # Errors
/// When something is missing and cannot be installed, or too few huge pages are free.
pub fn prepare(need_huge_pages: bool) -> Result<String> {
    let missing = missing_packages();
    if !missing.is_empty() {
        install(&missing)?;
        let still = missing_packages();
        ensure!(still.is_empty(), "installed, and yet not found: {}", still.join(" "));
    }
    if need_huge_pages {
        reserve_huge_pages()?;
    }
    let version = answer(Command::new("pkg-config").args(["--modversion", "libdpdk"]))
        .context("pkg-config does not know libdpdk")?;
    if !version.starts_with("22.11") {
        eprintln!("note: DPDK here is {version}; the wanted ratios were set for 22.11 (Debian 12)");
    }
    Ok(version)
}

fn answer(command: &mut Command) -> Option<String> {
    let finished = run(command, &[], Duration::from_secs(20)).ok()?;
    finished.status.success().then(|| finished.stdout.trim().to_owned())
}

fn missing_packages() -> Vec<&'static str> {
    let in_path = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
    };
    let mut missing = Vec::new();
    if !in_path("gcc") {
        missing.push("gcc");
    }
    if !in_path("pkg-config") {
        missing.push("pkg-config");
    }
    if !in_path("dpdk-testpmd") {
        missing.extend(["dpdk", "dpdk-dev"]); // Debian keeps testpmd in dpdk-dev
    }
    if !in_path("pkg-config")
        || answer(Command::new("pkg-config").args(["--modversion", "libdpdk"])).is_none()
    {
        missing.push("libdpdk-dev");
    }
    missing
}

fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    let by_hand = format!("apt-get install -y --no-install-recommends {list}");
    if !rustix::process::geteuid().is_root() {
        bail!("missing: {list}\nhint: sudo {by_hand}");
    }
    eprintln!("installing {list}");
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        run_ok(&mut command, &[], Duration::from_secs(600))
    };
    apt(&["update", "-q"]).context("the list of packages could not be brought up to date")?;
    let mut args = vec!["install", "-q", "-y", "--no-install-recommends"];
    args.extend(packages);
    apt(&args).with_context(|| format!("hint: {by_hand}"))?;
    Ok(())
}

/// Free huge pages of 2 MiB.
pub fn free_huge_pages() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    info.lines()
        .find_map(|l| l.strip_prefix("HugePages_Free:"))
        .and_then(|n| n.trim().parse().ok())
        .unwrap_or(0)
}

// DPDK runs with --in-memory here: it takes its huge pages without files, so nothing needs to be mounted and
// nothing stays behind. Measured against the default (files in hugetlbfs): no difference beyond the noise.
fn reserve_huge_pages() -> Result<()> {
    if free_huge_pages() >= PAGES_NEEDED {
        return Ok(());
    }
    let free = free_huge_pages();
    let hint = format!("hint: echo {PAGES_WANTED} | sudo tee {PAGES_FILE}");
    ensure!(
        rustix::process::geteuid().is_root(),
        "{free} huge pages of 2 MiB are free, {PAGES_NEEDED} are needed\n{hint}"
    );
    let now: u64 = std::fs::read_to_string(PAGES_FILE).ok().and_then(|n| n.trim().parse().ok()).unwrap_or(0);
    let ask = (now + PAGES_WANTED - free.min(PAGES_WANTED)).max(PAGES_WANTED);
    std::fs::write(PAGES_FILE, ask.to_string()).with_context(|| format!("cannot set {PAGES_FILE}"))?;
    let free = free_huge_pages();
    ensure!(
        free >= PAGES_NEEDED,
        "asked for {ask} huge pages of 2 MiB; {free} are free, {PAGES_NEEDED} are needed\n\
         hint: memory may be in pieces; right after a boot it is not, or give hugepages={PAGES_WANTED} to the kernel"
    );
    eprintln!("set {PAGES_FILE} to {ask} (was {now})");
    Ok(())
}

/// Builds the C programs against libdpdk.
///
/// # Errors
/// When the compiler refuses; with its words.
pub fn build_c(places: &Places) -> Result<()> {
    let flags = |what: &str| -> Result<Vec<String>> {
        let line = answer(Command::new("pkg-config").args([what, "libdpdk"]))
            .with_context(|| format!("pkg-config {what} libdpdk fails"))?;
        Ok(line.split_whitespace().map(str::to_owned).collect())
    };
    let (cflags, libs) = (flags("--cflags")?, flags("--libs")?);
    for program in PROGRAMS {
        let mut command = Command::new("gcc");
        command
            .args(["-O3", "-g", "-Wall", "-Wextra", "-DALLOW_EXPERIMENTAL_API"])
            .args(&cflags)
            .arg(places.root.join("bench/dpdk").join(program).with_extension("c"))
            .arg("-o")
            .arg(places.program(program))
            .args(&libs);
        run_ok(&mut command, &[], Duration::from_secs(120))?;
    }
    Ok(())
}

/// Builds the Rust peers, in a workspace of their own.
///
/// # Errors
/// When cargo fails; with its words.
pub fn build_peers(places: &Places) -> Result<PathBuf> {
    let target = places.scratch.join("peers");
    let mut command = cargo();
    command
        .args(["build", "--release", "--quiet", "--locked", "--manifest-path"])
        .arg(places.root.join("bench/peers/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target);
    run_ok(&mut command, &[], Duration::from_secs(600))
        .context("the Rust peers in bench/peers do not build")?;
    Ok(target.join("release/linerate-peers"))
}

/// Builds our own program as it is shipped.
///
/// # Errors
/// When cargo fails; with its words.
pub fn build_ours(places: &Places) -> Result<PathBuf> {
    let mut command = cargo();
    command
        .args(["build", "--release", "--quiet", "--package", "linerate", "--manifest-path"])
        .arg(places.root.join("Cargo.toml"));
    run_ok(&mut command, &[], Duration::from_secs(1200)).context("linerate does not build")?;
    Ok(places.target.join("release/linerate"))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The cores this process may use, lowest first.
///
/// # Errors
/// When the kernel does not say.
pub fn usable_cores() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).context("sched_getaffinity")?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}
