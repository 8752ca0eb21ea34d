//! An arrow between crates never points up.

use xtask::{Package, packages};

/// Crates in dependency order, each with what it may use (`docs/architecture.md`). `*`: all that
/// stand above it in this table.
const MAY_USE: [(&str, &[&str]); 30] = [
    ("units", &[]),
    ("checksum", &[]),
    ("settings", &["units"]),
    ("trace", &["units", "checksum"]),
    ("nand", &["units"]),
    ("dram", &["units"]),
    ("cxl", &["units"]),
    ("firmware", &["units"]),
    ("port", &["units"]),
    ("dax", &["units"]),
    ("vtime", &["units", "port"]),
    ("soc", &["units", "nand", "dram", "firmware", "port"]),
    ("crash", &["units", "firmware"]),
    ("shm", &["units", "port"]),
    ("inloop", &["units", "settings", "firmware", "soc", "shm"]),
    ("host", &["units", "trace", "dram"]),
    ("sim", &["*"]),
    (
        "device",
        &[
            "units", "checksum", "settings", "nand", "dram", "firmware", "port", "soc",
        ],
    ),
    ("fuse", &[]),
    (
        "serve",
        &["units", "checksum", "port", "shm", "fuse", "device"],
    ),
    ("bytefs", &["units", "checksum", "port", "dax", "fuse"]),
    (
        "fslab",
        &[
            "units", "checksum", "settings", "port", "dax", "vtime", "device", "bytefs",
        ],
    ),
    ("capi", &["units", "port", "shm"]),
    ("bindings", &["*"]),
    ("tracer", &["units", "trace"]),
    ("workloads", &["units"]),
    ("forge", &["checksum"]),
    ("examples", &["units", "port", "device"]),
    ("bench", &["*"]),
    ("xtask", &["*"]),
];

/// Crates that nobody may use.
const SEEN_BY_NONE: [&str; 8] = [
    "bindings",
    "capi",
    "tracer",
    "workloads",
    "forge",
    "examples",
    "bench",
    "xtask",
];

fn broken_rules(packages: &[Package]) -> Vec<String> {
    let mut broken = Vec::new();
    for package in packages {
        let Some(place) = MAY_USE.iter().position(|(name, _)| *name == package.name) else {
            broken.push(format!(
                "crate {} has no place in the order of crates",
                package.name
            ));
            continue;
        };
        for used in &package.uses {
            if SEEN_BY_NONE.contains(&used.as_str()) {
                broken.push(format!(
                    "{} uses {used}, which nobody may use",
                    package.name
                ));
            } else if !may_use(place, used) {
                broken.push(format!(
                    "{} uses {used}; it may use: {}",
                    package.name,
                    MAY_USE[place].1.join(", ")
                ));
            }
        }
    }
    broken
}

fn may_use(place: usize, used: &str) -> bool {
    let above = &MAY_USE[..place];
    MAY_USE[place].1.contains(&used)
        || MAY_USE[place].1 == ["*"] && above.iter().any(|(name, _)| *name == used)
}

#[test]
fn no_arrow_points_up() {
    let packages = packages();
    assert_eq!(
        packages.len(),
        MAY_USE.len(),
        "every crate of the order exists, and no other"
    );
    assert_eq!(broken_rules(&packages), Vec::<String>::new());
}

#[test]
fn a_wrong_arrow_is_found_with_its_rule() {
    let package = |name: &str, used: &str| Package {
        name: name.into(),
        uses: vec![used.into()],
    };
    let wrong = [
        package("firmware", "nand"),
        package("units", "trace"),
        package("host", "sim"),
        package("sim", "bench"),
        package("novel", "units"),
    ];
    let found = broken_rules(&wrong);
    assert_eq!(found.len(), wrong.len(), "{found:?}");
    assert_eq!(found[0], "firmware uses nand; it may use: units");
}
