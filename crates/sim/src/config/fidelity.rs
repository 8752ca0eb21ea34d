//! The fidelity switches: each is a named, documented patch over ordinary parameters (B5).
//!
//! What a reference artifact computes differently from its paper is an ordinary parameter of the
//! crate that owns the mechanism, with the paper's value as its default. A switch gives the
//! artifact's values. No design, machine or mechanism knows of it, and no two switches set the same
//! parameter, so that the order in which they are turned on does not matter. See docs/fidelity.md.

use crate::error::SimError;
use serde::Deserialize;
use settings::{Layer, nearest};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use toml::Table;

/// A switch, compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// The paper from which its artifact differs.
    pub paper: &'static str,
    /// Name on the command line: that of its file. No two switches of all papers have one name.
    pub name: &'static str,
    pub(super) text: &'static str,
}

/// What a switch's file says of it in its table `[switch]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// A few words.
    pub title: String,
    /// One paragraph: what the artifact does, what the paper says, what turning it on changes.
    pub summary: String,
    /// Where that is to be seen.
    pub source: String,
    /// The NAND types it applies to; all, if the list is empty. A run without `--nand` has "ull".
    #[serde(default)]
    pub nand_types: Vec<String>,
}

/// The switches of all papers, in the order in which the pages tell them.
pub const SWITCHES: &[Switch] = super::papers::SWITCHES;

impl Switch {
    fn table(&self) -> Table {
        self.text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", self.file()))
    }

    fn file(&self) -> String {
        format!("papers/{}/fidelity/{}.toml", self.paper, self.name)
    }

    /// What its file says of it.
    ///
    /// # Panics
    /// If the file has no proper table `[switch]`; a test reads them all.
    pub fn header(&self) -> Header {
        let header = self.table().remove("switch");
        header
            .and_then(|value| value.try_into().ok())
            .unwrap_or_else(|| panic!("{}: no [switch]", self.file()))
    }

    /// The parameters that it sets, as a layer.
    pub fn layer(&self) -> Layer {
        let mut table = self.table();
        table.remove("switch");
        let text = toml::to_string(&table).expect("a part of a TOML file is TOML");
        Layer::new(format!("fidelity switch {}", self.name), text)
    }

    /// The parameters that it sets: `section.key` and the value as text.
    pub fn assignments(&self) -> Vec<(String, String)> {
        let mut table = self.table();
        table.remove("switch");
        settings::values(&table)
    }
}

/// The switch of that name; `PAPER/NAME` is the same.
///
/// # Errors
/// If there is none; the message names the nearest one.
pub fn find(name: &str) -> Result<Switch, SimError> {
    let is_it = |switch: &&Switch| match name.split_once('/') {
        Some((paper, rest)) => switch.paper == paper && switch.name == rest,
        None => switch.name == name,
    };
    SWITCHES.iter().find(is_it).copied().ok_or_else(|| {
        let mut names = vec!["paper", "artifact"];
        names.extend(SWITCHES.iter().map(|switch| switch.name));
        SimError::Config(vec![format!(
            "unknown fidelity switch {name}; did you mean {}? entresol fidelity list has all",
            nearest(name, &names)
        )])
    })
}

/// The papers whose artifacts are known, each once.
fn papers() -> Vec<&'static str> {
    let mut papers: Vec<&str> = SWITCHES.iter().map(|switch| switch.paper).collect();
    papers.dedup();
    papers
}

/// The paper that `artifact` or `PAPER/artifact` means among these; nothing for another word.
fn artifact_of(word: &str, papers: &[&'static str]) -> Option<Result<&'static str, SimError>> {
    let refused = |why: String| Some(Err(SimError::Config(vec![why])));
    let listed = || {
        let each: Vec<String> = papers
            .iter()
            .map(|paper| format!("{paper}/artifact"))
            .collect();
        each.join(", ")
    };
    match (word, papers) {
        ("artifact", [paper]) => Some(Ok(paper)),
        ("artifact", _) => refused(format!("--fidelity {word}: say which: {}", listed())),
        _ => {
            let paper = word.strip_suffix("/artifact")?;
            match papers.iter().find(|known| **known == paper) {
                Some(known) => Some(Ok(known)),
                None => refused(format!("--fidelity {word}: there is {}", listed())),
            }
        }
    }
}

/// Which switches are on. Parsed from `paper` (none), `PAPER/artifact` (all of a paper; `artifact`
/// where one paper only has switches), or a list that begins with one of these or with nothing and
/// names what to turn on, and with a minus what to turn off: `no_prefetch,program_80us`,
/// `skybyte/artifact,-no_prefetch`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Fidelity {
    /// Places in [`SWITCHES`], ascending.
    on: Vec<usize>,
}

impl Fidelity {
    /// What the papers say: no switch.
    pub const PAPER: Self = Self { on: Vec::new() };

    /// What a paper's artifact computes: every switch of that paper.
    pub fn artifact(paper: &str) -> Self {
        let places = SWITCHES.iter().enumerate();
        Self {
            on: places
                .filter(|(_, switch)| switch.paper == paper)
                .map(|(place, _)| place)
                .collect(),
        }
    }

    /// The switches that are on, in the order of [`SWITCHES`].
    pub fn switches(&self) -> impl Iterator<Item = &'static Switch> + '_ {
        self.on.iter().map(|place| &SWITCHES[*place])
    }

    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.switches().map(|switch| switch.name).collect()
    }

    /// Their layers, for a run with this NAND type: those that do not apply to it set nothing.
    pub fn layers(&self, nand: Option<&str>) -> Vec<Layer> {
        let nand = nand.unwrap_or("ull");
        self.switches()
            .filter(|switch| {
                let types = switch.header().nand_types;
                types.is_empty() || types.iter().any(|name| name == nand)
            })
            .map(Switch::layer)
            .collect()
    }

    fn apply(&mut self, word: &str) -> Result<(), SimError> {
        let (name, is_off) = match word.strip_prefix('-') {
            Some(name) => (name, true),
            None => (word, false),
        };
        let switch = find(name)?;
        let place = SWITCHES
            .iter()
            .position(|known| known.name == switch.name)
            .expect("it was found there");
        match (self.on.binary_search(&place), is_off) {
            (Ok(at), true) => {
                self.on.remove(at);
            }
            (Err(at), false) => self.on.insert(at, place),
            (Ok(_), false) => {}
            (Err(_), true) => {
                return Err(SimError::Config(vec![format!(
                    "--fidelity: -{name} turns off what is not on; begin with artifact"
                )]));
            }
        }
        Ok(())
    }
}

/// A sentence on two switches that set one parameter to different values, which those of two papers
/// may: the order would decide.
fn conflict(switches: &[(&str, Vec<(String, String)>)]) -> Option<String> {
    let mut setters: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (name, assignments) in switches {
        for (key, value) in assignments {
            let before = setters.insert(key, (name, value));
            if let Some((other, _)) = before.filter(|(_, before)| before != value) {
                return Some(format!("{other} and {name} both set {key}; leave one out"));
            }
        }
    }
    None
}

impl FromStr for Fidelity {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Self, SimError> {
        let mut fidelity = Self::PAPER;
        for (place, word) in text.split(',').map(str::trim).enumerate() {
            let refused = |why: &str| SimError::Config(vec![format!("--fidelity {text}: {why}")]);
            match (artifact_of(word, &papers()), word) {
                (Some(paper), _) if place == 0 => fidelity = Self::artifact(paper?),
                (None, "paper") if place == 0 => {}
                (Some(_), _) | (None, "paper") => {
                    let why = format!("{word} comes first, the switches after it");
                    return Err(refused(&why));
                }
                (None, "") => {
                    return Err(refused(
                        "a name is missing; say paper, artifact, or switches separated by commas",
                    ));
                }
                (None, word) => fidelity.apply(word)?,
            }
        }
        let on: Vec<_> = fidelity
            .switches()
            .map(|switch| (switch.name, switch.assignments()))
            .collect();
        match conflict(&on) {
            Some(why) => Err(SimError::Config(vec![format!("--fidelity {text}: {why}")])),
            None => Ok(fidelity),
        }
    }
}

impl fmt::Display for Fidelity {
    /// The shortest text that is read back as the same switches: from nothing, or from the
    /// artifact of the first paper.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.switches().next() else {
            return f.write_str("paper");
        };
        let all = Self::artifact(first.paper);
        let (off, more): (Vec<usize>, Vec<usize>) = (
            all.on
                .iter()
                .filter(|place| !self.on.contains(place))
                .copied()
                .collect(),
            self.on
                .iter()
                .filter(|place| !all.on.contains(place))
                .copied()
                .collect(),
        );
        if off.len() + more.len() >= self.on.len() {
            return f.write_str(&self.names().join(","));
        }
        write!(f, "{}/artifact", first.paper)?;
        for place in off {
            write!(f, ",-{}", SWITCHES[place].name)?;
        }
        more.into_iter()
            .try_for_each(|place| write!(f, ",{}", SWITCHES[place].name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::config::presets::{self, DESIGNS, MACHINES, NAND_TYPES};
    use std::collections::BTreeSet;

    fn read(text: &str) -> Fidelity {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_is_read_from_left_to_right_and_printed_as_short_as_it_can_be() {
        assert_eq!(read("paper"), Fidelity::PAPER);
        assert_eq!(read("artifact").names().len(), SWITCHES.len());
        let two = read("program_80us, no_prefetch");
        assert_eq!(two.names(), ["no_prefetch", "program_80us"]);
        assert_eq!(two, read("paper,no_prefetch,program_80us,no_prefetch"));
        let most = read("artifact,-no_prefetch");
        assert_eq!(most.names().len(), SWITCHES.len() - 1);
        for fidelity in [Fidelity::PAPER, Fidelity::artifact("skybyte"), two, most] {
            assert_eq!(read(&fidelity.to_string()), fidelity, "{fidelity}");
        }
        assert_eq!(
            read("artifact,-no_prefetch").to_string(),
            "skybyte/artifact,-no_prefetch"
        );
    }

    #[test]
    fn a_switch_and_an_artifact_may_be_named_with_their_paper() {
        assert_eq!(read("skybyte/artifact"), read("artifact"));
        assert_eq!(read("skybyte/no_prefetch"), read("no_prefetch"));
        assert_eq!(
            read("skybyte/artifact,-skybyte/no_prefetch"),
            read("artifact,-no_prefetch")
        );
        for (text, hint) in [
            ("other/artifact", "there is skybyte/artifact"),
            (
                "no_prefetch,skybyte/artifact",
                "skybyte/artifact comes first",
            ),
            ("other/no_prefetch", "did you mean no_prefetch?"),
        ] {
            let error = text.parse::<Fidelity>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn an_artifact_of_several_has_to_be_named_with_its_paper() {
        let several = ["one", "other"];
        let error = artifact_of("artifact", &several).unwrap().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("say which: one/artifact, other/artifact"),
            "{error}"
        );
        assert_eq!(
            artifact_of("other/artifact", &several).unwrap().unwrap(),
            "other"
        );
        assert!(artifact_of("no_prefetch", &several).is_none());
    }

    #[test]
    fn switches_of_two_papers_that_contradict_each_other_are_refused() {
        let sets = |value: &str| vec![("ssd.prefetch.pages".to_string(), value.to_string())];
        assert_eq!(conflict(&[("one", sets("0")), ("other", sets("0"))]), None);
        let why = conflict(&[("one", sets("0")), ("other", sets("1"))]).unwrap();
        assert_eq!(
            why,
            "one and other both set ssd.prefetch.pages; leave one out"
        );
    }

    #[test]
    fn a_text_that_means_nothing_is_refused_with_what_to_do() {
        for (text, hint) in [
            ("no_prefech", "did you mean no_prefetch?"),
            ("artifac", "did you mean artifact?"),
            ("no_prefetch,paper", "paper comes first"),
            ("no_prefetch,", "a name is missing"),
            ("", "a name is missing"),
            ("-no_prefetch", "begin with artifact"),
        ] {
            let error = text.parse::<Fidelity>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn every_switch_has_a_name_of_its_own_and_says_what_it_is() {
        let names: BTreeSet<&str> = SWITCHES.iter().map(|switch| switch.name).collect();
        assert_eq!(names.len(), SWITCHES.len());
        for switch in SWITCHES {
            let header = switch.header();
            assert!(
                header.summary.len() > 80 && !header.source.is_empty(),
                "{}: a paragraph and its source",
                switch.name
            );
            let known: Vec<&str> = NAND_TYPES.iter().map(|nand| nand.name).collect();
            for nand in &header.nand_types {
                assert!(known.contains(&nand.as_str()), "{}: {nand}", switch.name);
            }
        }
    }

    #[test]
    fn no_two_switches_of_a_paper_set_the_same_parameter_and_each_changes_one() {
        let paper = presets::layers("table2", None, "base-cssd").unwrap();
        let paper = Config::from_layers(&paper).unwrap().texts();
        let paper: BTreeMap<String, String> = paper
            .into_iter()
            .flat_map(|(section, keys)| {
                keys.into_iter()
                    .map(move |(key, text)| (format!("{section}.{key}"), text))
            })
            .collect();
        let mut setters: BTreeMap<(&str, String), &str> = BTreeMap::new();
        for switch in SWITCHES {
            let assignments = switch.assignments();
            assert!(!assignments.is_empty(), "{} sets nothing", switch.name);
            for (key, value) in assignments {
                assert_ne!(paper.get(&key), Some(&value), "{}: {key}", switch.name);
                let other = setters.insert((switch.paper, key.clone()), switch.name);
                assert_eq!(other, None, "{key} is also set by {}", switch.name);
            }
        }
    }

    #[test]
    fn each_switch_alone_and_all_together_are_usable_with_every_preset_of_its_paper() {
        let each = SWITCHES.iter().map(|switch| read(switch.name));
        for fidelity in each.chain([Fidelity::artifact("skybyte")]) {
            for machine in MACHINES {
                for design in DESIGNS.iter().filter(|design| design.paper == "skybyte") {
                    let mut layers = presets::layers(machine.name, None, design.name).unwrap();
                    layers.extend(fidelity.layers(None));
                    let config = Config::from_layers(&layers);
                    let place = format!("{fidelity} on {} {}", machine.name, design.name);
                    config.unwrap_or_else(|error| panic!("{place}: {error}"));
                }
            }
        }
    }

    #[test]
    fn with_everything_off_again_each_design_is_that_of_the_paper() {
        let off = SWITCHES.iter().map(|switch| format!(",-{}", switch.name));
        let off = read(&format!("artifact{}", off.collect::<String>()));
        let config = |design, fidelity: Option<&Fidelity>| {
            let mut layers = presets::layers("table2", None, design).unwrap();
            layers.extend(fidelity.into_iter().flat_map(|on| on.layers(None)));
            Config::from_layers(&layers).unwrap().texts()
        };
        for design in DESIGNS.iter().filter(|design| design.paper == "skybyte") {
            let paper = config(design.name, None);
            assert_eq!(config(design.name, Some(&off)), paper, "{}", design.name);
            let artifact = config(design.name, Some(&Fidelity::artifact("skybyte")));
            assert_ne!(artifact, paper, "{}", design.name);
        }
    }

    #[test]
    fn a_switch_for_one_nand_type_sets_nothing_with_another() {
        let t_prog = |nand: Option<&str>| {
            let mut layers = presets::layers("table2", nand, "base-cssd").unwrap();
            layers.extend(read("program_80us").layers(nand));
            Config::from_layers(&layers).unwrap().nand.t_prog
        };
        assert_eq!(t_prog(None), units::Picos::from_micros(80));
        assert_eq!(t_prog(Some("ull")), units::Picos::from_micros(80));
        assert_eq!(t_prog(Some("ull2")), units::Picos::from_micros(75));
    }
}
