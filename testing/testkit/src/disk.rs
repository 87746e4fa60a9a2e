//! Faults of disks under a running process, made from outside of it.

use std::{
    fs,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use crate::{Gateway, others::is_missing, process::Process, wait::eventually};

/// How long a tracer may take to be in place, or to go.
const TRACED: Duration = Duration::from_secs(20);

/// What a file is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Call {
    /// To have everything on disk.
    Sync,
    /// To take bytes.
    Write,
    /// To give bytes.
    Read,
}

impl Call {
    pub(crate) const fn names(self) -> &'static str {
        match self {
            Self::Sync => "fsync,fdatasync",
            Self::Write => "pwrite64,write",
            Self::Read => "pread64,read",
        }
    }
}

/// What comes of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// This error, every time.
    Fails(&'static str),
    /// This error, at the nth time and never again.
    FailsAt(&'static str, u32),
    /// Nothing, for as long as the fault lasts; then what was asked for.
    Hangs,
    /// What was asked for, and it takes this long.
    Takes(Duration),
}

impl Trouble {
    pub(crate) fn injected(self, calls: &str) -> String {
        match self {
            Self::Fails(error) => format!("inject={calls}:error={error}"),
            Self::FailsAt(error, nth) => format!("inject={calls}:error={error}:when={nth}"),
            Self::Hangs => format!("inject={calls}:delay_enter={}", 3_600_000_000_u64),
            Self::Takes(time) => format!("inject={calls}:delay_enter={}", time.as_micros()),
        }
    }
}

/// A fault of a file as the threads of one gateway that serve its store meet it, until it is
/// dropped. Its other threads are left alone, and slowed down by nothing.
pub struct DiskFault {
    strace: Process,
    told: PathBuf,
    _dir: TempDir,
}

impl DiskFault {
    /// Whether tests with it are left out: `cargo xtask test` could not install strace and was told
    /// to go on, or the system does not let it trace.
    pub fn is_left_out() -> bool {
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        if !matches!(scope.trim(), "" | "0") && !is_root() {
            eprintln!("LEFT OUT: this system lets nobody but root trace other processes");
            return true;
        }
        is_missing("strace")
    }

    /// Lets calls on these files come to trouble from now on.
    #[track_caller]
    pub fn on(gateway: &Gateway, files: &[&Path], call: Call, trouble: Trouble) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let told = dir.path().join("told");
        let threads = store_threads(gateway.id());
        assert!(threads.len() >= 2, "a writer and those who read: {threads:?}");
        let mut command = Command::new("strace");
        // What was written between two syncs is told as well.
        let traced =
            format!("trace={},{},{}", call.names(), Call::Write.names(), Call::Sync.names());
        command.arg("-o").arg(&told).args(["-e", &traced]);
        command.args(["-e", &trouble.injected(call.names())]);
        for file in files {
            command.arg("-P").arg(file);
        }
        for thread in &threads {
            command.args(["-p", &thread.to_string()]);
        }
        let strace = Process::spawn("strace (cargo xtask setup installs it)", &mut command);
        eventually("the threads are traced", TRACED, || {
            let said = strace.stderr();
            said.iter().filter(|line| line.ends_with(" attached")).count() == threads.len()
        });
        Self { strace, told, _dir: dir }
    }

    /// The calls that were made, as strace writes them down.
    pub fn told(&self) -> String {
        fs::read_to_string(&self.told).unwrap_or_default()
    }

    /// How many calls it has met.
    pub fn hits(&self) -> usize {
        self.told()
            .lines()
            .filter(|line| line.ends_with("(INJECTED)") || line.ends_with("(DELAYED)"))
            .count()
    }
}

impl Drop for DiskFault {
    /// Who is delayed goes on at once.
    fn drop(&mut self) {
        self.strace.interrupt_and_end(TRACED);
    }
}

/// What starts a program whose calls on files are traced: a tracer that is nobody's parent.
pub(crate) fn traced(files: &[PathBuf], calls: &[Call], told: &Path) -> Vec<String> {
    let names: Vec<_> = calls.iter().map(|call| call.names()).collect();
    let mut by = vec!["strace", "-D", "-f", "-qq", "-o"];
    let (told, traced) = (told.display().to_string(), format!("trace={}", names.join(",")));
    by.extend([&*told, "-e", &traced]);
    let mut by: Vec<_> = by.into_iter().map(str::to_owned).collect();
    for file in files {
        by.extend(["-P".to_owned(), file.display().to_string()]);
    }
    by
}

/// The threads of a process that serve its store.
fn store_threads(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten();
    let of_the_store = tasks.filter(|task| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.starts_with("hapax-sqlite")
    });
    of_the_store.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// A file system of its own, until it is dropped.
pub struct Volume {
    at: PathBuf,
    _image: Option<TempDir>,
}

impl Volume {
    /// Whether tests with it are left out, because nobody but root may mount.
    pub fn is_left_out() -> bool {
        if !is_root() {
            eprintln!("LEFT OUT: only root may mount file systems");
            return true;
        }
        is_missing("mount") || is_missing("mkfs.ext4")
    }

    /// In memory, with room for so many KiB.
    #[track_caller]
    pub fn in_memory(at: &Path, kib: u32) -> Self {
        fs::create_dir_all(at).expect("a directory");
        done(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
                .arg(at),
        );
        Self { at: at.to_owned(), _image: None }
    }

    /// An ext4 on a disk of so many KiB, which goes read-only when it finds itself damaged.
    #[track_caller]
    pub fn on_disk(at: &Path, kib: u32) -> Self {
        fs::create_dir_all(at).expect("a directory");
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        let file = fs::File::create(&image).expect("an image");
        file.set_len(u64::from(kib) * 1024).expect("its length");
        done(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        done(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(&image).arg(at));
        Self { at: at.to_owned(), _image: Some(dir) }
    }

    /// Has its file system find itself damaged: nothing is written to it any more.
    #[track_caller]
    pub fn break_down(&self) {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        let at = self.at.display().to_string();
        let device = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let device = words.next()?;
            (words.next() == Some(&at)).then(|| device.trim_start_matches("/dev/").to_owned())
        });
        let device = device.expect("it is mounted");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "for a test\n")
            .expect("ext4 takes it");
    }

    /// Mounts it with another option, such as `ro`.
    #[track_caller]
    pub fn remount(&self, option: &str) {
        done(Command::new("mount").args(["-o", &format!("remount,{option}")]).arg(&self.at));
    }

    /// As [`fill`](Self::fill), and leaves so many KiB.
    #[track_caller]
    pub fn fill_but(&self, kib: u64) -> PathBuf {
        let path = self.fill();
        let ballast = fs::OpenOptions::new().write(true).open(&path).expect("the ballast");
        let length = ballast.metadata().expect("its length").len();
        ballast.set_len(length.saturating_sub(kib * 1024)).expect("it is cut off");
        path
    }

    /// Fills it to the last byte; it has room again when the file that this names is removed.
    #[track_caller]
    pub fn fill(&self) -> PathBuf {
        let path = self.at.join("ballast");
        let mut file = fs::File::create(&path).expect("a file");
        for piece in [1 << 16, 1 << 12, 1 << 8, 1] {
            while file.write_all(&vec![1; piece]).and_then(|()| file.sync_all()).is_ok() {}
        }
        path
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Lazily: whoever used it may still be going.
        done(Command::new("umount").arg("-l").arg(&self.at));
    }
}

#[track_caller]
fn done(command: &mut Command) {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// The owner of our own entry in `/proc` is the user we run as.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}
