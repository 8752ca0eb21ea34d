//! Parameters documented where they are declared.

use alloc::string::String;
use alloc::vec::Vec;

/// What the reference page and `entresol config explain` say of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Section and name: `nand.t_r`, `ssd.log.size`.
    pub key: &'static str,
    /// Rust type, which names the unit: `Picos`, `Bytes`, `u32`.
    pub kind: &'static str,
    /// Range of values that are accepted, in words.
    pub range: &'static str,
    /// Where the parameter and its default come from: paper and section, or our reason.
    pub source: &'static str,
    /// What it is: lines of documentation, each with the space that it begins with.
    pub doc: &'static str,
}

/// Sections with the documentation of their parameters.
pub type Sections = [(&'static str, &'static [Parameter])];
/// Values as text, by section and key.
pub type Texts = Vec<(&'static str, Vec<(&'static str, String)>)>;

/// The values of all parameters as text, by section and key, in the order of declaration; `text`
/// gives that of a section and a key.
pub fn texts(sections: &Sections, text: impl Fn(&str, &str) -> String) -> Texts {
    let of_section = |(section, parameters): &(&'static str, &'static [Parameter])| {
        let keys = parameters.iter().map(Parameter::name);
        let values = keys.map(|key| (key, text(section, key)));
        (*section, values.collect())
    };
    sections.iter().map(of_section).collect()
}

impl Parameter {
    /// Its name without its section: `t_r` of `nand.t_r`, `size` of `ssd.log.size`.
    ///
    /// # Panics
    /// If its key has no section.
    pub fn name(&self) -> &'static str {
        let (_, name) = self.key.rsplit_once('.').expect("section.key");
        name
    }

    /// What kind of value it takes, in words: "time", "size", "name".
    pub fn kind_in_words(&self) -> &'static str {
        match self.kind.rsplit("::").next().unwrap_or(self.kind).trim() {
            "Picos" => "time",
            "Cycles" => "core cycles",
            "Hertz" => "frequency",
            "Bytes" | "PageSize" => "size",
            "BytesPerSec" => "rate",
            "Ratio" => "share",
            "u32" | "u64" => "number",
            "bool" => "switch",
            _ => "name",
        }
    }
}

/// Declares a configuration section: a struct that refuses unknown keys, and the documentation of
/// each of its parameters as `PARAMETERS`.
///
/// ```
/// units::parameters! {
///     /// Timing of the flash.
///     pub struct TimingConfig: "nand" {
///         /// Page read time of a die.
///         t_r: units::Picos, "at least 1ns", "SkyByte Table II";
///     }
/// }
/// assert_eq!(TimingConfig::PARAMETERS[0].key, "nand.t_r");
/// ```
///
/// A section may have groups, which are sections of their own with its name before theirs:
///
/// ```
/// # units::parameters! {
/// #     /// How it is worn.
/// #     pub struct WearConfig: "nand.wear" {
/// #         /// Erases that a block endures.
/// #         cycles: u32, "any", "ours";
/// #     }
/// # }
/// units::parameters! {
///     /// The flash.
///     pub struct FlashConfig: "nand" {
///         /// Number of channels.
///         channels: u32, "1 to 64", "SkyByte Table II";
///     }
///     groups {
///         /// How it is worn, section `nand.wear`.
///         wear: WearConfig;
///     }
/// }
/// let cycles = |flash: &FlashConfig| flash.wear.cycles;
/// # let wear = WearConfig { cycles: 3 };
/// # assert_eq!(cycles(&FlashConfig { channels: 1, wear }), 3);
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $section_doc:literal])*
        pub struct $name:ident: $section:literal {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $kind:ty, $range:literal, $source:literal;
            )*
        }
        $(groups {
            $(
                $(#[doc = $group_doc:literal])*
                $group:ident: $group_kind:ty;
            )*
        })?
    ) => {
        $(#[doc = $section_doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                #[doc = ""]
                #[doc = concat!("Range: ", $range, ". Source: ", $source, ".")]
                pub $field: $kind,
            )*
            $($(
                $(#[doc = $group_doc])*
                pub $group: $group_kind,
            )*)?
        }

        impl $name {
            /// Documentation of every parameter of the section, in order, without its groups.
            pub const PARAMETERS: &'static [$crate::parameter::Parameter] = &[
                $($crate::parameter::Parameter {
                    key: concat!($section, ".", stringify!($field)),
                    kind: stringify!($kind),
                    range: $range,
                    source: $source,
                    doc: concat!($($doc),*),
                },)*
            ];

            /// Reads a value as the parameter of this name, to hear what is wrong with it; `None`
            /// if the section has no such parameter.
            pub fn read<'de, D: serde::Deserializer<'de>>(
                name: &str,
                value: D,
            ) -> Option<Result<(), D::Error>> {
                match name {
                    $(stringify!($field) => {
                        Some(<$kind as serde::Deserialize>::deserialize(value).map(drop))
                    })*
                    _ => None,
                }
            }
        }
    };
}
