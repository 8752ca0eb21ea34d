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
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use units::Bytes;

/// What stands in the list.
pub const PROGRAM: Program = Program {
    name: "srad",
    suite: "Rodinia",
    what: "speckle-reducing anisotropic diffusion of an image",
    check: "coefficients and pixels are exactly those of a serial run",
    work_unit: "pixels, half of them given coefficients and half updated",
    footprint: Bytes::new(8_160_000_000),
    small_work: 500_000,
    paper_work: 2_000_000,
    run: program::execute::<Srad>,
};

const WIDTH: usize = 2048;
/// Bytes of a pixel: itself, its coefficient, and four differences.
const PER_PIXEL: u64 = 24;
/// The corner over which the speckle is estimated.
const SAMPLE: usize = 128;
/// Step of an iteration.
const LAMBDA: f32 = 0.5;

/// A plane of `f32`, by their bits, that threads share.
type Plane = Box<[AtomicU32]>;

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
    /// Neighbours of a row and of a column; those of the border are their own.
    rows: Vec<[u32; 2]>,
    columns: Vec<[u32; 2]>,
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
        let plane = || zeroed(height * WIDTH);
        let mut srad = Self {
            height,
            image: plane()?,
            coefficient: plane()?,
            north: plane()?,
            south: plane()?,
            west: plane()?,
            east: plane()?,
            rows: neighbours(height),
            columns: neighbours(WIDTH),
            speckle: 0.0,
            coefficients,
            updates,
            key: random::key(setting.seed, "srad image"),
        };
        team::in_parts(srad.image.len(), |part| {
            part.for_each(|pixel| set(&srad.image, pixel, srad.drawn(pixel)));
        });
        srad.speckle = speckle(|row, column| get(&srad.image, row * WIDTH + column));
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
        *self.image[self.updates.end / 2].get_mut() ^= 1;
    }

    fn check(self, _: &Setting) -> Result<Checked, Failure> {
        let speckle = speckle(|row, column| self.drawn(row * WIDTH + column));
        let serial = Serial {
            srad: &self,
            speckle,
        };
        for pixel in self.coefficients.clone() {
            let right = serial.coefficient(pixel / WIDTH, pixel % WIDTH);
            let found = get(&self.coefficient, pixel);
            compare("coefficient", pixel, found, right)?;
        }
        for pixel in self.updates.clone() {
            let right = serial.updated(pixel / WIDTH, pixel % WIDTH);
            compare("pixel", pixel, get(&self.image, pixel), right)?;
        }
        let bits = |plane: &[AtomicU32]| Digest::of(plane.iter().map(|v| v.load(Relaxed).into()));
        let [coefficients, image] = [
            bits(&self.coefficient[self.coefficients.clone()]),
            bits(&self.image[self.updates.clone()]),
        ];
        Ok(Checked {
            said: format!(
                "{} of {} × {WIDTH} pixels updated, {} given coefficients",
                self.updates.len(),
                self.height,
                self.coefficients.len()
            ),
            digest: coefficients.with(image.get()),
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
fn get(plane: &Plane, pixel: usize) -> f32 {
    f32::from_bits(plane[pixel].load(Relaxed))
}

#[inline]
fn set(plane: &Plane, pixel: usize, value: f32) {
    plane[pixel].store(value.to_bits(), Relaxed);
}

/// The last pixels and the first ones, half of the work each.
fn sections(setting: &Setting, height: usize) -> Result<(Range<usize>, Range<usize>), Failure> {
    let (work, footprint) = (setting.work.get(), setting.footprint);
    if height < SAMPLE {
        return Err(Failure::refused(format!(
            "--footprint {footprint}: srad takes at least {SAMPLE} rows of 48 KiB."
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

/// For each of `count` rows or columns the one before it and the one after it.
fn neighbours(count: usize) -> Vec<[u32; 2]> {
    let last = count as u32 - 1;
    (0..=last)
        .map(|own| [own.saturating_sub(1), last.min(own + 1)])
        .collect()
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
    /// A checkerboard of tissue under multiplicative speckle.
    fn drawn(&self, pixel: usize) -> f32 {
        let field = pixel / WIDTH / 64 + pixel % WIDTH / 64;
        let tissue = if field.is_multiple_of(2) { 1.0 } else { 1.5 };
        let noise = (hash(self.key, pixel as u64) >> 40) as f32 / (1 << 24) as f32;
        tissue * (0.8 + 0.4 * noise)
    }

    /// Differences and coefficients of these pixels.
    fn coefficients(&self, pixels: Range<usize>) {
        let (mut row, mut column) = (pixels.start / WIDTH, pixels.start % WIDTH);
        for pixel in pixels {
            let own = get(&self.image, pixel);
            let [above, below] = self.rows[row];
            let [left, right] = self.columns[column];
            let there = |row: u32, column: u32| row as usize * WIDTH + column as usize;
            let to = |place: usize| get(&self.image, place) - own;
            let north = to(there(above, column as u32));
            let south = to(there(below, column as u32));
            let west = to(there(row as u32, left));
            let east = to(there(row as u32, right));
            set(&self.north, pixel, north);
            set(&self.south, pixel, south);
            set(&self.west, pixel, west);
            set(&self.east, pixel, east);
            let coefficient = diffusion(own, [north, south, west, east], self.speckle);
            set(&self.coefficient, pixel, coefficient);
            column += 1;
            if column == WIDTH {
                (row, column) = (row + 1, 0);
            }
        }
    }

    /// Moves these pixels by the diffusion over their sides.
    fn update(&self, pixels: Range<usize>) {
        let (mut row, mut column) = (pixels.start / WIDTH, pixels.start % WIDTH);
        for pixel in pixels {
            let (below, right) = (self.rows[row][1] as usize, self.columns[column][1] as usize);
            let own = get(&self.coefficient, pixel);
            let south = get(&self.coefficient, below * WIDTH + column);
            let east = get(&self.coefficient, row * WIDTH + right);
            let divergence = own * get(&self.north, pixel)
                + south * get(&self.south, pixel)
                + own * get(&self.west, pixel)
                + east * get(&self.east, pixel);
            let moved = get(&self.image, pixel) + 0.25 * LAMBDA * divergence;
            set(&self.image, pixel, moved);
            column += 1;
            if column == WIDTH {
                (row, column) = (row + 1, 0);
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
        self.srad.drawn(row * WIDTH + column)
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
        let differences = self.differences(row, column);
        diffusion(self.pixel(row, column), differences, self.speckle)
    }
    fn updated(&self, row: usize, column: usize) -> f32 {
        let (below, right) = (
            (row + 1).min(self.srad.height - 1),
            (column + 1).min(WIDTH - 1),
        );
        let [north, south, west, east] = self.differences(row, column);
        let own = self.coefficient(row, column);
        let divergence = own * north
            + self.coefficient(below, column) * south
            + own * west
            + self.coefficient(row, right) * east;
        self.pixel(row, column) + 0.25 * LAMBDA * divergence
    }
}
