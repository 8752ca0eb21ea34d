//! The house rules as tests: which crate may use which, what builds without `std`, what every file
//! of the tree keeps to, and that the reference pages say what the code says.
//!
//! It knows the layers and the tree. Of what the crates do it knows only what they declare for
//! documents: parameters, presets, and the names in a result. The rules are in `tests/`; this
//! library finds files and crates for them and writes the generated pages.

#![forbid(unsafe_code)]

pub mod reference;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that hold nothing a person wrote.
const GENERATED: [&str; 9] = [
    ".git",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "demo",
    "results",
    "target",
];

/// Top of the tree.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate is two levels below the top")
        .to_path_buf()
}

/// A text file of the tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the top, with `/`.
    pub name: String,
    /// Its whole text.
    pub text: String,
}

impl Source {
    /// Whether the name has one of these endings.
    #[must_use]
    pub fn is_one_of(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.name.ends_with(ending))
    }
}

/// All text files of the tree that people write, by name.
///
/// # Panics
/// When the tree cannot be read.
#[must_use]
pub fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the tree can be read") {
            let path = entry.expect("its entries too").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            // `.git` is a file in a second work tree of a repository.
            if GENERATED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let name = path
                    .strip_prefix(&root)
                    .expect("found below it")
                    .to_string_lossy();
                found.push(Source {
                    name: name.replace('\\', "/"),
                    text,
                });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// A crate of the workspace and the crates of the workspace that it uses, other than in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name, without `entresol-`.
    pub name: String,
    /// What it uses, in order.
    pub uses: Vec<String>,
}

/// The crates of the workspace, as `cargo metadata` tells them.
///
/// # Panics
/// When cargo does not answer.
#[must_use]
pub fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let list = metadata["packages"]
        .as_array()
        .expect("it lists the packages");
    list.iter().map(package).collect()
}

/// A package's name without the prefix under which it is published: that of its library.
fn short(name: &str) -> String {
    name.strip_prefix("entresol-").unwrap_or(name).into()
}

fn package(value: &serde_json::Value) -> Package {
    let mut uses: Vec<String> = value["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str().map(short))
        .collect();
    uses.sort();
    Package {
        name: short(value["name"].as_str().unwrap_or_default()),
        uses,
    }
}
