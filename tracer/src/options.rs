//! The plugin's arguments:
//! `-plugin libtracer.so,out=FILE,roi=on,quiet=on,skip=N,limit=N,emulator=TEXT`.

use std::path::PathBuf;

/// What to record and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The capture.
    pub out: PathBuf,
    /// Record only between the markers in the program (D2).
    pub roi: bool,
    /// Instrument nothing outside the markers ([`crate::quiet`]); with `roi` only.
    pub quiet: bool,
    /// Instructions of the process to leave out first.
    pub skip: u64,
    /// Instructions to record before the program is ended.
    pub limit: Option<u64>,
    /// The emulator's name and version, for the provenance.
    pub emulator: String,
}

impl Options {
    /// Reads `key=value` arguments.
    ///
    /// # Errors
    /// A sentence about the first argument that makes no sense.
    pub fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut out = None;
        let mut options = Self {
            out: PathBuf::new(),
            roi: false,
            quiet: false,
            skip: 0,
            limit: None,
            emulator: "QEMU, plugin interface 1".into(),
        };
        for argument in arguments {
            let (key, value) = argument.split_once('=').unwrap_or((argument, "on"));
            let number = || {
                let number = value
                    .parse()
                    .map_err(|_| format!("{argument}: not a number"));
                number.and_then(|n: u64| {
                    if n == 0 && key == "limit" {
                        Err("limit: is 0".into())
                    } else {
                        Ok(n)
                    }
                })
            };
            match key {
                "out" => out = Some(PathBuf::from(value)),
                "roi" => options.roi = matches!(value, "on" | "true" | "yes"),
                "quiet" => options.quiet = matches!(value, "on" | "true" | "yes"),
                "skip" => options.skip = number()?,
                "limit" => options.limit = Some(number()?),
                "emulator" => options.emulator = value.into(),
                _ => return Err(format!("{key}: no such argument")),
            }
        }
        if options.quiet && !options.roi {
            return Err("quiet: needs roi=on".into());
        }
        options.out = out.ok_or("out: missing, the file to write")?;
        Ok(options)
    }
}

/// The program and its arguments within the emulator's command line.
pub fn guest_command(arguments: &[String]) -> Vec<String> {
    const ALONE: [&str; 7] = [
        "-h",
        "-help",
        "-strace",
        "-singlestep",
        "-version",
        "-one-insn-per-tb",
        "-systrace",
    ];
    let mut rest = arguments.iter().skip(1);
    let mut command = Vec::new();
    while let Some(argument) = rest.next() {
        let option = argument
            .strip_prefix('-')
            .map(|name| name.trim_start_matches('-'));
        match option {
            Some(name) if ALONE.iter().any(|alone| alone[1..] == *name) => {}
            Some(_) => {
                rest.next();
            }
            None => {
                command.push(argument.clone());
                command.extend(rest.by_ref().cloned());
            }
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split(',').filter(|part| !part.is_empty()))
    }

    #[test]
    fn arguments_are_read() {
        let options = parse("out=a.etr,skip=5,limit=7,roi=on,emulator=QEMU 7.2").unwrap();
        assert_eq!(
            (options.skip, options.limit, options.roi),
            (5, Some(7), true)
        );
        assert_eq!(options.emulator, "QEMU 7.2");
        assert!(!parse("out=a.etr,roi=off").unwrap().roi);
        assert!(parse("out=a.etr,roi=on,quiet=on").unwrap().quiet);
        assert!(
            parse("out=a.etr,quiet=on")
                .unwrap_err()
                .starts_with("quiet")
        );
    }

    #[test]
    fn nonsense_is_refused_in_a_sentence() {
        assert_eq!(
            parse("skip=1").unwrap_err(),
            "out: missing, the file to write"
        );
        assert_eq!(parse("out=a,skip=x").unwrap_err(), "skip=x: not a number");
        assert_eq!(parse("out=a,limit=0").unwrap_err(), "limit: is 0");
        assert_eq!(
            parse("out=a,colour=red").unwrap_err(),
            "colour: no such argument"
        );
    }

    #[test]
    fn the_programs_command_is_found_behind_the_emulators_options() {
        let line = "qemu-x86_64 -cpu max -strace -plugin x.so,out=a ls -l -plugin";
        let line: Vec<_> = line.split(' ').map(String::from).collect();
        assert_eq!(guest_command(&line), ["ls", "-l", "-plugin"]);
    }
}
