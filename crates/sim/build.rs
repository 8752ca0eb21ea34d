//! Lists the designs and fidelity switches of all papers, as their rooms name them, so that whoever
//! adds one writes its file and its name in the room's `paper.toml`, and nothing here.

use std::fs;
use std::path::{Path, PathBuf};
use toml::Table;

fn main() {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let papers = Path::new(&manifest).join("../../python/entresol/papers");
    let mut made = Made::default();
    for room in names(&read(&papers.join("papers.toml")), "rooms") {
        made.room(&papers.join(&room), &room);
    }
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("papers.rs"), made.text()).expect("OUT_DIR can be written");
}

/// The lists, as Rust.
#[derive(Default)]
struct Made {
    designs: String,
    switches: String,
}

impl Made {
    fn room(&mut self, folder: &Path, paper: &str) {
        let manifest = read(&folder.join("paper.toml"));
        for name in files(&manifest, folder, "designs") {
            let path = folder.join(format!("designs/{}.toml", name.replace('-', "_")));
            self.design(paper, &name, read(&path), &path);
        }
        for name in files(&manifest, folder, "switches") {
            let path = folder.join(format!("fidelity/{name}.toml"));
            let text = toml::to_string(&read(&path)).expect("what was read is TOML");
            let item = format!("Switch {{ paper: {paper:?}, name: {name:?}, text: {text:?} }},\n");
            self.switches.push_str(&item);
        }
    }

    /// The table `about` is for people; the rest is a layer of a configuration.
    fn design(&mut self, paper: &str, name: &str, mut table: Table, path: &Path) {
        let about = table.remove("about");
        let said = |key: &str| {
            about
                .as_ref()
                .and_then(|about| about.get(key))
                .and_then(toml::Value::as_str)
                .unwrap_or_else(|| panic!("{}: [about] lacks {key}", path.display()))
        };
        let (title, summary, source) = (said("title"), said("summary"), said("source"));
        let text = toml::to_string(&table).expect("what was read is TOML");
        self.designs.push_str(&format!(
            "Preset {{ paper: {paper:?}, name: {name:?}, title: {title:?}, summary: {summary:?}, \
             source: {source:?}, text: {text:?} }},\n"
        ));
    }

    fn text(&self) -> String {
        let Self { designs, switches } = self;
        format!(
            "pub(super) const DESIGNS: &[Preset] = &[\n{designs}];\n\
             pub(super) const SWITCHES: &[Switch] = &[\n{switches}];\n"
        )
    }
}

/// The names that a list of a room has; each has its file, and each file is in the list.
fn files(manifest: &Table, folder: &Path, list: &str) -> Vec<String> {
    let names = names(manifest, list);
    let below = folder.join(if list == "switches" { "fidelity" } else { list });
    if !below.is_dir() {
        assert!(names.is_empty(), "{}: no such folder", below.display());
        return names;
    }
    println!("cargo::rerun-if-changed={}", below.display());
    let mut listed: Vec<PathBuf> = names
        .iter()
        .map(|name| below.join(format!("{}.toml", name.replace('-', "_"))))
        .collect();
    let mut there: Vec<PathBuf> = fs::read_dir(&below)
        .expect("it is a folder")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    listed.sort();
    there.sort();
    for path in &listed {
        assert!(
            there.contains(path),
            "{}: paper.toml names it",
            path.display()
        );
    }
    for path in &there {
        assert!(
            listed.contains(path),
            "{}: paper.toml lacks it",
            path.display()
        );
    }
    names
}

fn names(manifest: &Table, list: &str) -> Vec<String> {
    let values = manifest.get(list).and_then(toml::Value::as_array);
    let name = |value: &toml::Value| value.as_str().expect("names are text").to_string();
    values.into_iter().flatten().map(name).collect()
}

fn read(path: &Path) -> Table {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    text.parse()
        .unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}
