//! Tests of the whole against plain models.

mod life;
mod model;
mod schedules;
mod tracker;
