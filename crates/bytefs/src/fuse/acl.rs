//! Access control lists of POSIX.1e, as the extended attributes in which Linux keeps them.
//!
//! The kernel checks permissions by them and asks for the attributes. What a file gets when it is
//! made, and that list and permissions of a file say the same, is the file system's.

/// The attribute of a file's list.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of what a directory gives to what is made in it.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const ENTRY: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A list: one entry each of owner, group and others; a mask if it names users or groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Acl(Vec<Entry>);

impl Acl {
    /// Reads an attribute; nothing if it is no list, or one without the three that each has.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk::<4>()?;
        let (entries, over) = rest.as_chunks::<ENTRY>();
        if u32::from_le_bytes(*version) != VERSION || !over.is_empty() {
            return None;
        }
        let list = Self(entries.iter().map(entry).collect());
        let known = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];
        let is_sound = list.0.iter().all(|entry| known.contains(&entry.tag))
            && [USER_OBJ, GROUP_OBJ, OTHER]
                .iter()
                .all(|tag| list.count(*tag) == 1)
            && list.count(MASK) <= 1
            && (list.count(MASK) == 1 || list.is_minimal());
        is_sound.then_some(list)
    }

    /// The attribute.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend(entry.tag.to_le_bytes());
            bytes.extend(entry.permissions.to_le_bytes());
            bytes.extend(entry.id.to_le_bytes());
        }
        bytes
    }

    /// Whether permissions alone say all of it.
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The nine bits of a file's permissions that say what the list says. The group's are the mask,
    /// if there is one.
    pub fn permissions(&self) -> u16 {
        let of = |tag| self.get(tag).unwrap_or(0) & 7;
        of(USER_OBJ) << 6 | of(self.group_class()) << 3 | of(OTHER)
    }

    /// The list of a file whose permissions are changed.
    pub fn set_permissions(&mut self, permissions: u16) {
        let group = self.group_class();
        self.update(USER_OBJ, |_| permissions >> 6 & 7);
        self.update(group, |_| permissions >> 3 & 7);
        self.update(OTHER, |_| permissions & 7);
    }

    /// The list of what is made with these permissions in a directory that gives this one; they
    /// take away from it, and the umask does not count.
    pub fn restrict(&mut self, permissions: u16) {
        let group = self.group_class();
        self.update(USER_OBJ, |old| old & permissions >> 6);
        self.update(group, |old| old & permissions >> 3);
        self.update(OTHER, |old| old & permissions);
    }

    fn group_class(&self) -> u16 {
        if self.count(MASK) == 1 {
            MASK
        } else {
            GROUP_OBJ
        }
    }

    fn count(&self, tag: u16) -> usize {
        self.0.iter().filter(|entry| entry.tag == tag).count()
    }

    fn get(&self, tag: u16) -> Option<u16> {
        let found = self.0.iter().find(|entry| entry.tag == tag)?;
        Some(found.permissions)
    }

    fn update(&mut self, tag: u16, new: impl Fn(u16) -> u16) {
        for entry in self.0.iter_mut().filter(|entry| entry.tag == tag) {
            entry.permissions = new(entry.permissions);
        }
    }
}

fn entry(bytes: &[u8; ENTRY]) -> Entry {
    let [t0, t1, p0, p1, i0, i1, i2, i3] = *bytes;
    Entry {
        tag: u16::from_le_bytes([t0, t1]),
        permissions: u16::from_le_bytes([p0, p1]),
        id: u32::from_le_bytes([i0, i1, i2, i3]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u32 = u32::MAX;

    fn list(entries: &[(u16, u16, u32)]) -> Acl {
        let entries = entries.iter().map(|&(tag, permissions, id)| Entry {
            tag,
            permissions,
            id,
        });
        Acl(entries.collect())
    }

    fn named() -> Acl {
        list(&[
            (USER_OBJ, 7, NONE),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, NONE),
            (MASK, 6, NONE),
            (OTHER, 1, NONE),
        ])
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let bytes = named().bytes();
        assert_eq!(bytes.len(), 4 + 5 * 8);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]);
        assert_eq!(Acl::parse(&bytes), Some(named()));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let bytes = named().bytes();
        for cut in 0..bytes.len() {
            assert_eq!(Acl::parse(&bytes[..cut]), None, "{cut}");
        }
        let mut newer = bytes.clone();
        newer[0] = 3;
        assert_eq!(Acl::parse(&newer), None);
        let unmasked = list(&[
            (USER_OBJ, 7, NONE),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, NONE),
            (OTHER, 1, NONE),
        ]);
        assert_eq!(Acl::parse(&unmasked.bytes()), None);
    }

    #[test]
    fn permissions_of_the_group_are_the_mask() {
        let mut acl = named();
        assert_eq!(acl.permissions(), 0o761);
        acl.set_permissions(0o640);
        assert_eq!(acl.permissions(), 0o640);
        assert_eq!(acl.get(GROUP_OBJ), Some(5));
        assert_eq!(acl.get(USER), Some(6));
        let mut minimal = list(&[(USER_OBJ, 6, NONE), (GROUP_OBJ, 4, NONE), (OTHER, 0, NONE)]);
        assert!(minimal.is_minimal());
        minimal.set_permissions(0o755);
        assert_eq!(minimal.permissions(), 0o755);
    }

    #[test]
    fn what_is_made_gets_no_more_than_it_asked_for() {
        let mut acl = named();
        acl.restrict(0o640);
        assert_eq!(acl.permissions(), 0o640);
        let mut acl = named();
        acl.restrict(0o777);
        assert_eq!(acl, named());
    }
}
