//! Tests of the whole against plain models.

mod life;
mod tracker;
