//! `cargo xtask package`: a Debian package and a tarball of the command, with everything that a service needs.
//!
//! The program of both is linked statically, so one build runs on every distribution. What is in them is the same; only the
//! places differ. Equal sources give equal packages: times are those of the commit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::book;

/// Options of the chore.
struct Options {
    /// A program that is built already; otherwise one is built.
    binary: Option<PathBuf>,
    out: PathBuf,
}

/// A place in the package, from a file of the tree.
struct Item {
    from: &'static str,
    /// A directory if it ends with a slash.
    to: &'static str,
}

const fn item(from: &'static str, to: &'static str) -> Item {
    Item { from, to }
}

/// Files of the tree that are installed as they are.
const ITEMS: [Item; 9] = [
    item("packaging/systemd/sinew@.service", "usr/lib/systemd/system/"),
    item("packaging/systemd/sinew-member@.service", "usr/lib/systemd/system/"),
    item("packaging/udev/64-sinew.rules", "usr/lib/udev/rules.d/"),
    item("packaging/pool.toml", "usr/share/doc/sinew/examples/"),
    item("packaging/hooks/webhook", "usr/share/sinew/hooks/"),
    item("packaging/containers/seccomp.json", "usr/share/sinew/containers/"),
    item("packaging/monitoring/alerts.yml", "usr/share/sinew/monitoring/"),
    item("packaging/monitoring/grafana-dashboard.json", "usr/share/sinew/monitoring/"),
    item("README.md", "usr/share/doc/sinew/"),
];

/// Completions: the shell, and where it looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/sinew"),
    ("zsh", "usr/share/zsh/vendor-completions/_sinew"),
    ("fish", "usr/share/fish/vendor_completions.d/sinew.fish"),
];

/// Runs the chore with the arguments behind its name.
///
/// # Errors
/// When an argument is wrong, or a program fails that it uses.
pub(crate) fn run(root: &Path, args: impl Iterator<Item = String>) -> Result<(), String> {
    let options = options(root, args)?;
    let binary = match options.binary {
        Some(binary) => binary,
        None => build(root)?,
    };
    let release = Release::of(root);
    let out = &options.out;
    let _ = fs::remove_dir_all(out);
    let tree = out.join("tree");
    stage(root, &binary, &tree)?;
    let deb = debian(root, &release, out, &tree)?;
    let tarball = tarball(&release, out, &tree)?;
    let _ = fs::remove_dir_all(&tree);
    for made in [deb, tarball] {
        println!("{}", made.display());
    }
    Ok(())
}

/// # Errors
/// When an argument is not known or has no value.
fn options(root: &Path, mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let mut options = Options { binary: None, out: root.join(target).join("package") };
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--binary" => options.binary = Some(value.into()),
            "--out" => options.out = value.into(),
            _ => return Err("usage: cargo xtask package [--binary PROGRAM] [--out DIR]".to_owned()),
        }
    }
    Ok(options)
}

/// The version and the time of what is packaged.
struct Release {
    version: String,
    /// Seconds since 1970.
    time: String,
    maintainer: String,
}

impl Release {
    /// From the commit, or from the version alone where there is no repository.
    fn of(root: &Path) -> Release {
        let version = env!("CARGO_PKG_VERSION");
        let log = ["log", "-1", "--date=format:%Y%m%d", "--format=%cd%n%h%n%ct%n%an <%ae>"];
        let log = output(Command::new("git").args(log).current_dir(root)).unwrap_or_default();
        match log.trim().lines().collect::<Vec<_>>().as_slice() {
            [date, hash, time, maintainer] => Release {
                version: format!("{version}+git{date}.{hash}"),
                time: (*time).to_owned(),
                maintainer: (*maintainer).to_owned(),
            },
            _ => Release {
                version: version.to_owned(),
                time: "0".to_owned(),
                maintainer: "Sinew <sinew@localhost>".to_owned(),
            },
        }
    }
}

/// Builds the program for packages, with the C library in it.
///
/// # Errors
/// When the compiler fails.
fn build(root: &Path) -> Result<PathBuf, String> {
    let about = output(Command::new("rustc").arg("-vV").current_dir(root))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    // With a target, the flags are for the program and not for what runs during the build.
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", "dist", "--package", "sinew", "--locked", "--target", host]);
    let cargo = cargo.env("RUSTFLAGS", "-C target-feature=+crt-static").current_dir(root);
    run_all(cargo)?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    Ok(root.join(target).join(host).join("dist/sinew"))
}

/// Puts everything into a tree like that of the machine it is installed on.
///
/// # Errors
/// When a file cannot be written, or the program does not run.
fn stage(root: &Path, binary: &Path, tree: &Path) -> Result<(), String> {
    let program = tree.join("usr/bin/sinew");
    copy(binary, &program, 0o755)?;
    run_all(Command::new("strip").args(["--strip-unneeded"]).arg(&program))?;
    for Item { from, to } in ITEMS {
        let from = root.join(from);
        let to = tree.join(to).join(from.file_name().unwrap_or_default());
        let is_program = fs::metadata(&from).is_ok_and(|meta| meta.permissions().mode() & 0o100 != 0);
        copy(&from, &to, if is_program { 0o755 } else { 0o644 })?;
    }
    let docs = root.join("docs");
    for file in book::files(&docs)? {
        let name = file.strip_prefix(&docs).unwrap_or(&file);
        copy(&file, &tree.join("usr/share/doc/sinew").join(name), 0o644)?;
    }
    let read = |path: &str| fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let doc = tree.join("usr/share/doc/sinew");
    let changes = doc.join("changelog");
    write(&changes, &read("CHANGELOG.md")?)?;
    let licences =
        [b"Sinew is under the MIT licence or the Apache licence 2.0, at your choice.\n\n".to_vec()];
    let licences =
        licences.into_iter().chain([read("LICENSE-MIT")?, b"\n".to_vec(), read("LICENSE-APACHE")?]);
    write(&doc.join("copyright"), &licences.flatten().collect::<Vec<u8>>())?;
    for (shell, path) in COMPLETIONS {
        let text = output(Command::new(&program).args(["generate", "completions", shell]))?;
        write(&tree.join(path), text.as_bytes())?;
    }
    let pages = tree.join("usr/share/man/man1");
    output(Command::new(&program).args(["generate", "man"]).arg(&pages))?;
    let mut packed = vec![changes];
    for entry in fs::read_dir(&pages).map_err(|error| format!("{}: {error}", pages.display()))?.flatten() {
        packed.push(entry.path());
    }
    // The directory of configurations is there from the beginning.
    make_dir(&tree.join("etc/sinew"))?;
    run_all(Command::new("gzip").args(["-9", "-n"]).args(packed))
}

/// Makes the Debian package of the tree.
///
/// # Errors
/// When a file cannot be written, or dpkg-deb fails.
fn debian(root: &Path, release: &Release, out: &Path, tree: &Path) -> Result<PathBuf, String> {
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let control = tree.join("DEBIAN");
    let from = root.join("packaging/debian");
    let kib = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree))?;
    let text = fs::read_to_string(from.join("control")).map_err(|error| format!("control: {error}"))?;
    let text = text
        .replace("@VERSION@", &release.version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@MAINTAINER@", &release.maintainer)
        .replace("@INSTALLED_KIB@", kib.split_whitespace().next().unwrap_or("0"))
        .replace("@DEPENDS@", &depends(&tree.join("usr/bin/sinew"))?);
    write(&control.join("control"), text.as_bytes())?;
    for script in ["postinst", "prerm", "postrm"] {
        copy(&from.join(script), &control.join(script), 0o755)?;
    }
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output(Command::new("sh").args(["-c", sums]).current_dir(tree))?;
    write(&control.join("md5sums"), sums.as_bytes())?;
    let deb = out.join(format!("sinew_{}_{architecture}.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).args([tree, &deb]);
    run_all(build.env("SOURCE_DATE_EPOCH", &release.time).stdout(Stdio::null()))?;
    fs::remove_dir_all(&control).map_err(|error| format!("{}: {error}", control.display()))?;
    Ok(deb)
}

/// The field for the C library that a program needs, or nothing if it has one in it.
///
/// # Errors
/// When the program cannot be examined.
fn depends(program: &Path) -> Result<String, String> {
    let symbols = output(Command::new("objdump").arg("-T").arg(program))?;
    let version = |line: &str| -> Option<Vec<u32>> {
        let (_, text) = line.split_once("GLIBC_")?;
        let text = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        text.split('.').map(|part| part.parse().ok()).collect()
    };
    Ok(match symbols.lines().filter_map(version).max() {
        Some(newest) => {
            let newest: Vec<String> = newest.iter().map(ToString::to_string).collect();
            format!("Depends: libc6 (>= {}), libgcc-s1\n", newest.join("."))
        }
        None => String::new(),
    })
}

/// Makes the tarball of the tree.
///
/// # Errors
/// When tar fails.
fn tarball(release: &Release, out: &Path, tree: &Path) -> Result<PathBuf, String> {
    let name = format!("sinew-{}-{}-linux", release.version, std::env::consts::ARCH);
    let tarball = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", release.time)).arg(format!("--transform=s,^\\.,{name},"));
    tar.args(["--use-compress-program=gzip -9n", "--create", "--file"]).arg(&tarball);
    run_all(tar.arg("--directory").arg(tree).arg("."))?;
    Ok(tarball)
}

/// # Errors
/// When the directory cannot be made.
fn make_dir(dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

/// Writes a file that all users may read, and the directories above it.
///
/// # Errors
/// When that is not possible.
fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    make_dir(path.parent().unwrap_or(path))?;
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    set_mode(path, 0o644)
}

/// # Errors
/// When the file cannot be copied.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    make_dir(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    set_mode(to, mode)
}

/// # Errors
/// When the mode cannot be set.
fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, permissions).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a program to its end.
///
/// # Errors
/// When it cannot be run or fails.
fn run_all(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}

/// What a program prints.
///
/// # Errors
/// When it cannot be run or fails.
fn output(command: &mut Command) -> Result<String, String> {
    let out = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !out.status.success() {
        return Err(format!("{command:?} failed"));
    }
    String::from_utf8(out.stdout).map_err(|error| format!("{command:?}: {error}"))
}
