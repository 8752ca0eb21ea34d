//! The presets that ship with Entresol: machines, NAND types, designs.
//!
//! Machines and NAND types belong to all papers; a design is its paper's.

use crate::error::SimError;
use settings::{Layer, distance};

/// A preset file, compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The paper in whose room it is; empty for what belongs to all.
    pub paper: &'static str,
    /// Name on the command line, kebab-case for designs (D24). No two designs of all papers have
    /// one name, so that results name them by it alone.
    pub name: &'static str,
    /// Name in the paper, or a title.
    pub title: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Where a design comes from; empty for what says so in its file.
    pub source: &'static str,
    /// TOML.
    pub text: &'static str,
}

macro_rules! preset {
    ($file:literal, $name:literal, $title:literal, $summary:literal) => {
        Preset {
            paper: "",
            name: $name,
            title: $title,
            summary: $summary,
            source: "",
            text: include_str!(concat!("../../../../configs/", $file, ".toml")),
        }
    };
}

/// The machines; `table2` is complete, others say what they change of it.
pub const MACHINES: &[Preset] = &[
    preset!(
        "machines/table2",
        "table2",
        "SkyByte Table II",
        "8 cores at 4 GHz, 16 MiB L3, 128 GiB of flash behind 512 MiB of device DRAM."
    ),
    preset!(
        "machines/small",
        "small",
        "Table II at a sixteenth",
        "Table II with caches, device DRAM, log, promoted pages and flash 16 times smaller, for captures of scale small."
    ),
    preset!(
        "machines/demo",
        "demo",
        "Demo",
        "2 cores and a device small enough that a capture of a few million instructions fills the write log several times and makes GC run."
    ),
];

/// The flash of SkyByte Table IV and the modules that OpenCXD measured.
pub const NAND_TYPES: &[Preset] = &[
    preset!(
        "nand/ull",
        "ull",
        "ULL (Samsung Z-NAND)",
        "3 us read, 100 us program, 1 ms erase."
    ),
    preset!(
        "nand/ull2",
        "ull2",
        "ULL2 (Toshiba XL-Flash)",
        "4 us read, 75 us program, 850 us erase."
    ),
    preset!(
        "nand/slc",
        "slc",
        "SLC",
        "25 us read, 200 us program, 1.5 ms erase."
    ),
    preset!(
        "nand/mlc",
        "mlc",
        "MLC",
        "50 us read, 600 us program, 3 ms erase."
    ),
    preset!(
        "nand/module-a",
        "module-a",
        "OpenCXD module (a), SK hynix",
        "Times drawn from tables: 4 x 8 dies, 16 KiB pages, 1 TiB."
    ),
    preset!(
        "nand/module-b",
        "module-b",
        "OpenCXD module (b), Toshiba",
        "Times drawn from tables: 4 x 8 dies, 16 KiB pages, 256 GiB."
    ),
];

/// The designs of all papers, in the order of reports.
pub const DESIGNS: &[Preset] = super::papers::DESIGNS;

/// The preset of that name.
///
/// # Errors
/// If there is none; the message lists or suggests what there is.
pub fn find(presets: &[Preset], what: &str, name: &str) -> Result<Preset, SimError> {
    if let Some(preset) = presets.iter().find(|preset| preset.name == name) {
        return Ok(*preset);
    }
    let names: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
    let nearest = names
        .iter()
        .min_by_key(|known| distance(known, name))
        .expect("presets exist");
    let hint = if distance(nearest, name) <= 3 {
        format!("did you mean {nearest}?")
    } else {
        format!("there are {}", names.join(", "))
    };
    Err(SimError::Config(vec![format!(
        "unknown {what} {name}; {hint}"
    )]))
}

/// The layers of a machine, a NAND type and a design, in order (D22).
///
/// # Errors
/// If one of the names is unknown.
pub fn layers(machine: &str, nand: Option<&str>, design: &str) -> Result<Vec<Layer>, SimError> {
    let machine = find(MACHINES, "machine", machine)?;
    let mut layers = vec![Layer::new("machine table2", MACHINES[0].text)];
    if machine.name != MACHINES[0].name {
        layers.push(Layer::new(
            format!("machine {}", machine.name),
            machine.text,
        ));
    }
    if let Some(nand) = nand {
        let nand = find(NAND_TYPES, "NAND type", nand)?;
        layers.push(Layer::new(format!("NAND type {}", nand.name), nand.text));
    }
    let design = find(DESIGNS, "design", design)?;
    layers.push(Layer::new(format!("design {}", design.name), design.text));
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn each_design_of_skybyte_names_its_section_of_the_paper() {
        let of = DESIGNS.iter().filter(|design| design.paper == "skybyte");
        assert!(of.clone().count() > 0);
        for design in of {
            assert!(design.source.starts_with("SkyByte §VI-"), "{}", design.name);
        }
    }

    #[test]
    fn no_two_designs_of_all_papers_have_one_name() {
        let names: std::collections::BTreeSet<&str> =
            DESIGNS.iter().map(|design| design.name).collect();
        assert_eq!(names.len(), DESIGNS.len());
    }

    #[test]
    fn nand_types_are_those_of_table_iv() {
        let micros = |nand: &str| {
            let layers = layers("table2", Some(nand), "base-cssd").expect("the presets exist");
            let nand = Config::from_layers(&layers)
                .expect("presets are valid")
                .nand;
            [nand.t_r, nand.t_prog, nand.t_bers].map(|time| time.get() / 1_000_000)
        };
        assert_eq!(micros("ull"), [3, 100, 1000]);
        assert_eq!(micros("ull2"), [4, 75, 850]);
        assert_eq!(micros("slc"), [25, 200, 1500]);
        assert_eq!(micros("mlc"), [50, 600, 3000]);
    }
}
