//! A whole file system as one value: what a program sees that looks at everything.

use crate::crash::contents::Contents;
use crate::crash::op::Path;
use bytefs::FileKind;
use std::collections::BTreeMap;

/// Everything that can be seen, by path; the root is `.`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tree(pub BTreeMap<Path, Entry>);

/// A name in a tree, and its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The same of two names of one file, and of no two files.
    pub id: u64,
    /// What is known of the file beside its contents.
    pub meta: Meta,
    /// Its bytes; none of what is no regular file.
    pub contents: Contents,
}

/// What is known of a file beside its contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Its kind.
    pub kind: FileKind,
    /// The low twelve bits of its mode.
    pub permissions: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// How many names it has.
    pub links: u32,
    /// Of a device.
    pub rdev: u32,
    /// Of a symbolic link.
    pub target: Vec<u8>,
    /// Its extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Tree {
    /// What differs in names, kinds, links, modes and attributes: one sentence.
    pub fn meta_difference(&self, found: &Self) -> Option<String> {
        for path in self.0.keys() {
            if !found.0.contains_key(path) {
                return Some(format!("{path} is missing"));
            }
        }
        let mut ids = BTreeMap::new();
        let mut back = BTreeMap::new();
        for (path, entry) in &found.0 {
            let Some(wanted) = self.0.get(path) else {
                return Some(format!("{path} is there and should not be"));
            };
            if let Some(how) = wanted.meta.difference(&entry.meta) {
                return Some(format!("{path} {how}"));
            }
            let other = *ids.entry(entry.id).or_insert(wanted.id);
            let one = *back.entry(wanted.id).or_insert(entry.id);
            if other != wanted.id || one != entry.id {
                return Some(format!(
                    "{path} is a name of another file than it should be"
                ));
            }
        }
        None
    }

    /// What differs at all: one sentence.
    pub fn difference(&self, found: &Self) -> Option<String> {
        self.meta_difference(found).or_else(|| {
            self.0.iter().find_map(|(path, wanted)| {
                let how = contents_difference(&wanted.contents, &found.0[path].contents)?;
                Some(format!("{path} {how}"))
            })
        })
    }
}

impl Meta {
    fn difference(&self, found: &Self) -> Option<String> {
        if self == found {
            return None;
        }
        if self.kind != found.kind {
            return Some(format!(
                "is a {:?} and should be a {:?}",
                found.kind, self.kind
            ));
        }
        for (what, wanted, found) in [
            ("links", self.links, found.links),
            ("as its owner", self.uid, found.uid),
            ("as its group", self.gid, found.gid),
            ("as its device", self.rdev, found.rdev),
        ] {
            if wanted != found {
                return Some(format!("has {found} {what} and should have {wanted}"));
            }
        }
        if self.permissions != found.permissions {
            return Some(format!(
                "has the permissions {:o} and should have {:o}",
                found.permissions, self.permissions
            ));
        }
        if self.target != found.target {
            return Some("has another target than it should".to_owned());
        }
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for (key, value) in &self.xattrs {
            match found.xattrs.get(key) {
                None => return Some(format!("lacks the attribute {}", name(key))),
                Some(other) if other != value => {
                    return Some(format!("has another value of the attribute {}", name(key)));
                }
                Some(_) => {}
            }
        }
        let extra = found
            .xattrs
            .keys()
            .find(|key| !self.xattrs.contains_key(*key));
        extra.map(|key| format!("has the attribute {} and should not", name(key)))
    }
}

/// What differs between contents, in words that follow a name.
pub fn contents_difference(wanted: &Contents, found: &Contents) -> Option<String> {
    if wanted.size() != found.size() {
        let (found, wanted) = (found.size(), wanted.size());
        return Some(format!("has {found} B and should have {wanted} B"));
    }
    let mut pages: Vec<u64> = wanted.pages().chain(found.pages()).collect();
    pages.sort_unstable();
    pages.dedup();
    for page in pages {
        let at = page * 4096;
        let (wanted, found) = (wanted.read(at, 4096), found.read(at, 4096));
        if wanted == found {
            continue;
        }
        let first = wanted.iter().zip(&found).position(|(a, b)| a != b);
        if let Some(first) = first {
            let (a, b) = (wanted[first], found[first]);
            let at = at + first as u64;
            return Some(format!(
                "has {b:#04x} at byte {at} and should have {a:#04x}"
            ));
        }
    }
    None
}
