//! Speckle-reducing anisotropic diffusion (Yu and Acton, IEEE TIP 11(11), 2002): a stencil that
//! smooths an ultrasound image where it is even and leaves edges alone. Each iteration computes for
//! every pixel its differences to four neighbours and a coefficient of diffusion, then moves every
//! pixel by the diffusion over its four sides.
//!
//! The region of interest is a section of the first iteration around the barrier between the two:
//! the coefficients of the last pixels, the update of the first. Coefficients that the update needs
//! are computed before the region; those between are not, and their memory stays untouched.

use crate::memory::zeroed;
use crate::random::{self, hash};
use crate::{Checked, Digest, Failure, Member, Program, Setting, Workload, program, team};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use units::Bytes;

/// What stands in the list.
pub const PROGRAM: Program = Program {
    name: "srad",
    suite: "Rodinia",
    what: "speckle-reducing anisotropic diffusion of an image",
    check: "coefficients and pixels are exactly those of a serial run",
    work_unit: "pixels, half of them given coefficients and half updated",
    footprint: Bytes::new(8_160_000_000),
    small_work: 2_200_000,
    paper_work: 2_750_000,
    run: program::execute::<Srad>,
};

const WIDTH: usize = 2048;
/// Bytes of a pixel: itself, its coefficient, four differences, and whether it is valid.
const PER_PIXEL: u64 = 25;
/// The corner over which the speckle is estimated.
const SAMPLE: usize = 128;
/// Step of an iteration.
const LAMBDA: f32 = 0.5;

/// A plane of `f32`, by their bits, that threads share.
type Plane = Box<[[AtomicU32; WIDTH]]>;

/// The image and what an iteration computes for it.
pub struct Srad {
    height: usize,
    image: Plane,
    coefficient: Plane,
    /// Differences to the pixels north, south, west and east.
    north: Plane,
    south: Plane,
    west: Plane,
    east: Plane,
    /// Whether a pixel received an echo: one that did not neither diffuses nor changes.
    valid: Box<[[AtomicU8; WIDTH]]>,
    /// The columns west and east of each.
    columns: Box<[Neighbours; WIDTH]>,
    /// Speckle of the sample: variance by squared mean.
    speckle: f32,
    /// Pixels that get coefficients in the region, and pixels that are updated.
    coefficients: Range<usize>,
    updates: Range<usize>,
    key: u64,
}

impl Workload for Srad {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let pixels = setting.footprint.get() / PER_PIXEL;
        let height = pixels as usize / WIDTH;
        let (coefficients, updates) = sections(setting, height)?;
        let plane = || zeroed(height);
        let mut srad = Self {
            height,
            image: plane()?,
            coefficient: plane()?,
            north: plane()?,
            south: plane()?,
            west: plane()?,
            east: plane()?,
            valid: zeroed(height)?,
            columns: Box::new(std::array::from_fn(Neighbours::of)),
            speckle: 0.0,
            coefficients,
            updates,
            key: random::key(setting.seed, "srad image"),
        };
        team::in_parts(height * WIDTH, |part| {
            for pixel in part {
                let (row, column) = (pixel / WIDTH, pixel % WIDTH);
                let (value, valid) = srad.drawn(pixel);
                set(&srad.image[row][column], value);
                srad.valid[row][column].store(valid.into(), Relaxed);
            }
        });
        srad.speckle = speckle(|row, column| get(&srad.image[row][column]));
        // An updated pixel needs the coefficients of itself and of those south and east.
        let needed = (srad.updates.end + WIDTH).min(srad.coefficients.start);
        team::in_parts(needed, |part| srad.coefficients(part));
        Ok(srad)
    }

    fn region(&self, member: &Member<'_>) {
        let own = |section: &Range<usize>| {
            let part = member.part(section.len());
            section.start + part.start..section.start + part.end
        };
        self.coefficients(own(&self.coefficients));
        member.barrier();
        self.update(own(&self.updates));
    }

    fn spoil(&mut self) {
        let pixel = self.updates.end / 2;
        *self.image[pixel / WIDTH][pixel % WIDTH].get_mut() ^= 1;
    }

    fn check(self, _: &Setting) -> Result<Checked, Failure> {
        let speckle = speckle(|row, column| self.drawn(row * WIDTH + column).0);
        let serial = Serial {
            srad: &self,
            speckle,
        };
        let mut digest = Digest::default();
        for pixel in self.coefficients.clone() {
            let (row, column) = (pixel / WIDTH, pixel % WIDTH);
            let found = get(&self.coefficient[row][column]);
            compare("coefficient", pixel, found, serial.coefficient(row, column))?;
            digest = digest.with(found.to_bits().into());
        }
        for pixel in self.updates.clone() {
            let (row, column) = (pixel / WIDTH, pixel % WIDTH);
            let found = get(&self.image[row][column]);
            compare("pixel", pixel, found, serial.updated(row, column))?;
            digest = digest.with(found.to_bits().into());
        }
        Ok(Checked {
            said: format!(
                "{} of {} × {WIDTH} pixels updated, {} given coefficients",
                self.updates.len(),
                self.height,
                self.coefficients.len()
            ),
            digest,
        })
    }
}

fn compare(what: &str, pixel: usize, found: f32, right: f32) -> Result<(), Failure> {
    if found.to_bits() == right.to_bits() {
        return Ok(());
    }
    let (row, column) = (pixel / WIDTH, pixel % WIDTH);
    Err(Failure::wrong(format!(
        "{what} at row {row}, column {column} is {found}; a serial run says {right}."
    )))
}

#[inline]
fn get(place: &AtomicU32) -> f32 {
    f32::from_bits(place.load(Relaxed))
}

#[inline]
fn set(place: &AtomicU32, value: f32) {
    place.store(value.to_bits(), Relaxed);
}

/// The rows of a run of pixels, each with its columns.
fn rows_of(pixels: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    (pixels.start / WIDTH..pixels.end.div_ceil(WIDTH)).map(move |row| {
        let start = pixels.start.saturating_sub(row * WIDTH);
        (row, start..WIDTH.min(pixels.end - row * WIDTH))
    })
}

/// The last pixels and the first ones, half of the work each.
fn sections(setting: &Setting, height: usize) -> Result<(Range<usize>, Range<usize>), Failure> {
    let (work, footprint) = (setting.work.get(), setting.footprint);
    if height < SAMPLE {
        return Err(Failure::refused(format!(
            "--footprint {footprint}: srad takes at least {SAMPLE} rows of 50 KiB."
        )));
    }
    let pixels = height * WIDTH;
    let half = work.div_ceil(2);
    if half > (pixels - WIDTH) as u64 / 2 {
        return Err(Failure::refused(format!(
            "--work {work}: at {footprint} the region can take up to {} pixels.",
            (pixels - WIDTH) / 2 * 2
        )));
    }
    let half = half as usize;
    Ok((pixels - half..pixels, 0..half))
}

/// The columns beside one; those of the border are their own.
struct Neighbours {
    west: u16,
    east: u16,
}

impl Neighbours {
    fn of(column: usize) -> Self {
        Self {
            west: column.saturating_sub(1) as u16,
            east: (column + 1).min(WIDTH - 1) as u16,
        }
    }
}

/// Variance by squared mean of the sample.
fn speckle(pixel: impl Fn(usize, usize) -> f32) -> f32 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for row in 0..SAMPLE {
        for column in 0..SAMPLE {
            let value = pixel(row, column);
            sum += value;
            squares += value * value;
        }
    }
    let mean = sum / (SAMPLE * SAMPLE) as f32;
    (squares / (SAMPLE * SAMPLE) as f32 - mean * mean) / (mean * mean)
}

/// The coefficient of diffusion of a pixel with these differences to its neighbours.
#[inline]
fn diffusion(pixel: f32, [north, south, west, east]: [f32; 4], speckle: f32) -> f32 {
    let gradient = north * north + south * south + west * west + east * east;
    let gradient = gradient / (pixel * pixel);
    let laplacian = (north + south + west + east) / pixel;
    let numerator = 0.5 * gradient - (1.0 / 16.0) * (laplacian * laplacian);
    let denominator = 1.0 + 0.25 * laplacian;
    let own = numerator / (denominator * denominator);
    let excess = (own - speckle) / (speckle * (1.0 + speckle));
    (1.0 / (1.0 + excess)).clamp(0.0, 1.0)
}

impl Srad {
    /// A checkerboard of tissue under multiplicative speckle, and whether there was an echo: one in
    /// 64 pixels has none.
    fn drawn(&self, pixel: usize) -> (f32, bool) {
        let field = pixel / WIDTH / 64 + pixel % WIDTH / 64;
        let tissue = if field.is_multiple_of(2) { 1.0 } else { 1.5 };
        let bits = hash(self.key, pixel as u64);
        let noise = (bits >> 40) as f32 / (1 << 24) as f32;
        (tissue * (0.8 + 0.4 * noise), !bits.is_multiple_of(64))
    }

    /// Differences and coefficients of these pixels.
    fn coefficients(&self, pixels: Range<usize>) {
        for (row, columns) in rows_of(pixels) {
            let image = &self.image[row];
            let above = &self.image[row.saturating_sub(1)];
            let below = &self.image[(row + 1).min(self.height - 1)];
            let (north, south) = (&self.north[row], &self.south[row]);
            let (west, east) = (&self.west[row], &self.east[row]);
            let (coefficient, valid) = (&self.coefficient[row], &self.valid[row]);
            for column in columns {
                if valid[column].load(Relaxed) == 0 {
                    set(&coefficient[column], 0.0);
                    continue;
                }
                let own = get(&image[column]);
                let beside = &self.columns[column];
                let to_north = get(&above[column]) - own;
                let to_south = get(&below[column]) - own;
                let to_west = get(&image[usize::from(beside.west)]) - own;
                let to_east = get(&image[usize::from(beside.east)]) - own;
                set(&north[column], to_north);
                set(&south[column], to_south);
                set(&west[column], to_west);
                set(&east[column], to_east);
                let sides = [to_north, to_south, to_west, to_east];
                set(&coefficient[column], diffusion(own, sides, self.speckle));
            }
        }
    }

    /// Moves these pixels by the diffusion over their sides.
    fn update(&self, pixels: Range<usize>) {
        for (row, columns) in rows_of(pixels) {
            let image = &self.image[row];
            let (coefficient, valid) = (&self.coefficient[row], &self.valid[row]);
            let below = &self.coefficient[(row + 1).min(self.height - 1)];
            let (north, south) = (&self.north[row], &self.south[row]);
            let (west, east) = (&self.west[row], &self.east[row]);
            for column in columns {
                if valid[column].load(Relaxed) == 0 {
                    continue;
                }
                let own = get(&coefficient[column]);
                let beyond = &coefficient[usize::from(self.columns[column].east)];
                let divergence = own * get(&north[column])
                    + get(&below[column]) * get(&south[column])
                    + own * get(&west[column])
                    + get(beyond) * get(&east[column]);
                let pixel = &image[column];
                set(pixel, get(pixel) + 0.25 * LAMBDA * divergence);
            }
        }
    }
}

/// The same iteration from the definition, pixel by pixel from the image as it was drawn.
struct Serial<'a> {
    srad: &'a Srad,
    speckle: f32,
}

impl Serial<'_> {
    fn pixel(&self, row: usize, column: usize) -> f32 {
        self.srad.drawn(row * WIDTH + column).0
    }
    fn is_valid(&self, row: usize, column: usize) -> bool {
        self.srad.drawn(row * WIDTH + column).1
    }
    fn differences(&self, row: usize, column: usize) -> [f32; 4] {
        let own = self.pixel(row, column);
        let (below, right) = (
            (row + 1).min(self.srad.height - 1),
            (column + 1).min(WIDTH - 1),
        );
        [
            self.pixel(row.saturating_sub(1), column) - own,
            self.pixel(below, column) - own,
            self.pixel(row, column.saturating_sub(1)) - own,
            self.pixel(row, right) - own,
        ]
    }
    fn coefficient(&self, row: usize, column: usize) -> f32 {
        if !self.is_valid(row, column) {
            return 0.0;
        }
        let differences = self.differences(row, column);
        diffusion(self.pixel(row, column), differences, self.speckle)
    }
    fn updated(&self, row: usize, column: usize) -> f32 {
        let (below, right) = (
            (row + 1).min(self.srad.height - 1),
            (column + 1).min(WIDTH - 1),
        );
        if !self.is_valid(row, column) {
            return self.pixel(row, column);
        }
        let [north, south, west, east] = self.differences(row, column);
        let own = self.coefficient(row, column);
        let divergence = own * north
            + self.coefficient(below, column) * south
            + own * west
            + self.coefficient(row, right) * east;
        self.pixel(row, column) + 0.25 * LAMBDA * divergence
    }
}
