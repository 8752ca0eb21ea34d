//! What parameters of the section `ssd` were called before it had groups.

/// Each key that is no more, with the one that it is now. A file or `--set` with an old one is
/// answered with the new one; the configuration in an older image is read with it.
pub const RENAMED: &[(&str, &str)] = &[
    ("ssd.write_log", "ssd.log.size"),
    ("ssd.log_entry", "ssd.log.entry"),
    ("ssd.log_design_share", "ssd.log.design_share"),
    ("ssd.log_mode", "ssd.log.mode"),
    ("ssd.log_seal_at", "ssd.log.seal_at"),
    ("ssd.log_index", "ssd.log.index"),
    ("ssd.log_lookup", "ssd.log.lookup"),
    ("ssd.tx_log", "ssd.log.tx_log"),
    ("ssd.log_write_updates_cache", "ssd.log.write_updates_cache"),
    ("ssd.write_lookup", "ssd.log.write_lookup"),
    ("ssd.merge_on_fill", "ssd.log.merge_on_fill"),
    ("ssd.cache_ways", "ssd.cache.ways"),
    ("ssd.cache_policy", "ssd.cache.policy"),
    ("ssd.mshr_count", "ssd.cache.mshr_count"),
    ("ssd.cache_lookup", "ssd.cache.lookup"),
    ("ssd.clean_victims", "ssd.cache.clean_victims"),
    ("ssd.victim_order", "ssd.cache.victim_order"),
    ("ssd.prefetcher", "ssd.prefetch.kind"),
    ("ssd.prefetch_pages", "ssd.prefetch.pages"),
    ("ssd.prefetch_on_first_use", "ssd.prefetch.on_first_use"),
    ("ssd.prefetch_reserve", "ssd.prefetch.reserve"),
    ("ssd.prefetch_streams", "ssd.prefetch.streams"),
    ("ssd.prefetch_regions", "ssd.prefetch.regions"),
    ("ssd.compaction_page_cost", "ssd.compaction.page_cost"),
    ("ssd.compaction_copies", "ssd.compaction.copies"),
    ("ssd.compaction_batch", "ssd.compaction.batch"),
    ("ssd.promotion_counts", "ssd.promotion.counts"),
    ("ssd.promotion_threshold", "ssd.promotion.threshold"),
];
