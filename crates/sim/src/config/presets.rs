//! The presets that ship with Entresol: machines, NAND types, designs.

use crate::error::SimError;
use settings::{Layer, distance};

/// A preset file, compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name on the command line, kebab-case for designs (D24).
    pub name: &'static str,
    /// Name in the paper, or a title.
    pub title: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// TOML.
    pub text: &'static str,
}

impl Preset {
    /// Where a design comes from: the first line of its file.
    pub fn source(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or_default();
        line.trim_start_matches("# ").trim_end_matches('.')
    }
}

macro_rules! preset {
    ($file:literal, $name:literal, $title:literal, $summary:literal) => {
        Preset {
            name: $name,
            title: $title,
            summary: $summary,
            text: include_str!(concat!("../../../../", $file, ".toml")),
        }
    };
}

/// The machines; `table2` is complete, others say what they change of it.
pub const MACHINES: &[Preset] = &[
    preset!(
        "configs/machines/table2",
        "table2",
        "SkyByte Table II",
        "8 cores at 4 GHz, 16 MiB L3, 128 GiB of flash behind 512 MiB of device DRAM."
    ),
    preset!(
        "configs/machines/small",
        "small",
        "Table II at a sixteenth",
        "Table II with caches, device DRAM, log, promoted pages and flash 16 times smaller, for captures of scale small."
    ),
    preset!(
        "configs/machines/demo",
        "demo",
        "Demo",
        "2 cores and a device small enough that a capture of a few million instructions fills the write log several times and makes GC run."
    ),
];

/// The flash of SkyByte Table IV.
pub const NAND_TYPES: &[Preset] = &[
    preset!(
        "configs/nand/ull",
        "ull",
        "ULL (Samsung Z-NAND)",
        "3 us read, 100 us program, 1 ms erase."
    ),
    preset!(
        "configs/nand/ull2",
        "ull2",
        "ULL2 (Toshiba XL-Flash)",
        "4 us read, 75 us program, 850 us erase."
    ),
    preset!(
        "configs/nand/slc",
        "slc",
        "SLC",
        "25 us read, 200 us program, 1.5 ms erase."
    ),
    preset!(
        "configs/nand/mlc",
        "mlc",
        "MLC",
        "50 us read, 600 us program, 3 ms erase."
    ),
];

/// The designs of SkyByte §VI-A, weakest first, then those of §VI-H beside the one each alters.
pub const DESIGNS: &[Preset] = &[
    preset!(
        "python/entresol/papers/skybyte/designs/base_cssd",
        "base-cssd",
        "Base-CSSD",
        "CXL-SSD with a page-granular data cache, MSHRs and a next-N prefetcher."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_p",
        "skybyte-p",
        "SkyByte-P",
        "Base-CSSD with adaptive page migration to host DRAM."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_c",
        "skybyte-c",
        "SkyByte-C",
        "Base-CSSD with the coordinated context switch."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_w",
        "skybyte-w",
        "SkyByte-W",
        "Base-CSSD with the write log beside the data cache."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_cp",
        "skybyte-cp",
        "SkyByte-CP",
        "Context switch and page migration."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_ct",
        "skybyte-ct",
        "SkyByte-CT",
        "Context switch and TPP, page migration by the operating system's hint sampling."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_wp",
        "skybyte-wp",
        "SkyByte-WP",
        "Write log and page migration."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_wct",
        "skybyte-wct",
        "SkyByte-WCT",
        "Write log, context switch and TPP."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/skybyte_full",
        "skybyte-full",
        "SkyByte-Full",
        "Write log, page migration and context switch."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/astriflash_cxl",
        "astriflash-cxl",
        "AstriFlash-CXL",
        "Base-CSSD below host DRAM as a page cache in hardware, with user-level thread switches."
    ),
    preset!(
        "python/entresol/papers/skybyte/designs/dram_only",
        "dram-only",
        "DRAM-Only",
        "Every page in host DRAM: the ideal that costs the most."
    ),
];

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
    fn each_design_names_its_section_of_the_paper() {
        for design in DESIGNS {
            assert!(
                design.source().starts_with("SkyByte §VI-"),
                "{}",
                design.name
            );
        }
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
