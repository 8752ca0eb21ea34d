//! The six stages of a range, as three marks (thesis §5.1.1).

use core::fmt;

/// The mark of a range that is to be upgraded, or is being so.
const TO_UPGRADE: u32 = 1;
/// The mark of a range that is to be downgraded, or is being so.
const TO_DOWNGRADE: u32 = 2;
/// The mark of a range that is upgraded, or is on its way there or in line to leave.
const UPGRADED: u32 = 4;

/// Where a range is between the host's memory and the device's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// In the host's memory. No mark.
    Plain,
    /// It waits for a worker. The mark `to upgrade`.
    ToUpgrade,
    /// A worker brings it to the device. The marks `to upgrade` and `upgraded`.
    Upgrading,
    /// In the device's memory. The mark `upgraded`.
    Upgraded,
    /// It waits for a worker. The marks `upgraded` and `to downgrade`.
    ToDowngrade,
    /// A worker brings it back. The mark `to downgrade`.
    Downgrading,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Plain,
        Self::ToUpgrade,
        Self::Upgrading,
        Self::Upgraded,
        Self::ToDowngrade,
        Self::Downgrading,
    ];

    /// The marks, one bit each: to upgrade, to downgrade, upgraded.
    pub const fn marks(self) -> u32 {
        match self {
            Self::Plain => 0,
            Self::ToUpgrade => TO_UPGRADE,
            Self::Upgrading => TO_UPGRADE | UPGRADED,
            Self::Upgraded => UPGRADED,
            Self::ToDowngrade => UPGRADED | TO_DOWNGRADE,
            Self::Downgrading => TO_DOWNGRADE,
        }
    }

    /// The stage with these marks; the two others mean nothing.
    pub(crate) fn of(marks: u32) -> Self {
        let found = Self::ALL.into_iter().find(|stage| stage.marks() == marks);
        found.unwrap_or(Self::Plain)
    }

    /// Whether its pages are in the device's memory, all that are to be there.
    pub const fn is_on_device(self) -> bool {
        matches!(self, Self::Upgraded | Self::ToDowngrade | Self::Downgrading)
    }

    /// Whether a worker has it.
    pub const fn is_moving(self) -> bool {
        matches!(self, Self::Upgrading | Self::Downgrading)
    }

    /// As users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ToUpgrade => "to-upgrade",
            Self::Upgrading => "upgrading",
            Self::Upgraded => "upgraded",
            Self::ToDowngrade => "to-downgrade",
            Self::Downgrading => "downgrading",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_stages_apart() {
        for stage in Stage::ALL {
            assert_eq!(Stage::of(stage.marks()), stage);
            assert_ne!(stage.marks() & 3, 3, "it goes one way at a time");
        }
    }
}
