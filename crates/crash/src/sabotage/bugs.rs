//! The bugs that can be planted.

/// What part of the firmware a bug is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Writes of lines.
    Writes,
    /// Compaction of the log.
    Compaction,
    /// What is copied from where: fetches, buffers, moves.
    Copies,
    /// Programs, erases and the mapping.
    Flash,
    /// Page buffers.
    Buffers,
    /// Transactions.
    Transactions,
    /// Trims.
    Trims,
    /// What is promised without a battery.
    Promises,
    /// Frames that survive.
    Frames,
    /// Recovery, which is given spoiled tables; nothing is done to actions.
    Recovery,
}

macro_rules! bugs {
    ($($(#[doc = $doc:expr])+ $name:ident = $key:literal in $part:ident,)+) => {
        /// A bug that can be planted. Its doc says what the firmware would have done.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Bug { $($(#[doc = $doc])+ $name,)+ }

        impl Bug {
            /// All of them, with the names that scripts and the lab's page use.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $key),)+];

            /// Where it is.
            pub(super) fn part(self) -> Part {
                match self {
                    $(Self::$name => Part::$part,)+
                }
            }
        }
    };
}

bugs! {
    /// Overwriting a line that is in the log, it updated its index and forgot the record.
    LoggedForgotten = "logged_forgotten" in Writes,
    /// It recorded a line before it had copied it.
    LoggedBeforeCopy = "logged_before_copy" in Writes,
    /// It answered a write before it had recorded it.
    AnsweredBeforeLogged = "answered_before_logged" in Writes,
    /// Its compaction left the slots of a page that is on flash as they were.
    DroppedForgotten = "dropped_forgotten" in Compaction,
    /// Its compaction gave slots up when the page's program began.
    DroppedBeforeMapped = "dropped_before_mapped" in Compaction,
    /// It mapped a page when the program began.
    MappedBeforeProgrammed = "mapped_before_programmed" in Flash,
    /// Its garbage collection forgot to map a page that it moved.
    MoveForgotten = "move_forgotten" in Flash,
    /// Its garbage collection erased first and mapped what it had moved then.
    ErasedBeforeMapped = "erased_before_mapped" in Flash,
    /// Its garbage collection mapped a page that it had moved, although that had been written or
    /// given up meanwhile.
    MoveUnchecked = "move_unchecked" in Flash,
    /// It forgot to record a page in a buffer that it answered for.
    BufferedForgotten = "buffered_forgotten" in Buffers,
    /// It recorded a buffer before the page was in it.
    BufferedBeforeCopy = "buffered_before_copy" in Buffers,
    /// It gave a buffer up before it mapped its page.
    UnbufferedBeforeMapped = "unbuffered_before_mapped" in Buffers,
    /// It gave a buffer up when its program began.
    UnbufferedBeforeProgrammed = "unbuffered_before_programmed" in Buffers,
    /// It put the older page over the logged lines, not the lines over the page.
    MergedInWrongOrder = "merged_in_wrong_order" in Compaction,
    /// Its compaction took an older version of a line: its index was stale.
    MergedFromStaleSlot = "merged_from_stale_slot" in Compaction,
    /// It did not record which pages it was about to program.
    BegunForgotten = "begun_forgotten" in Flash,
    /// It recorded an erase when it began.
    ErasedTooEarly = "erased_too_early" in Flash,
    /// A write to the log left the frame of its page as it was.
    FrameForgotten = "frame_forgotten" in Writes,
    /// After recovery it numbered writes from the beginning.
    OrderRestarted = "order_restarted" in Writes,
    /// Its recovery overlooked the page buffers.
    BuffersOverlooked = "buffers_overlooked" in Recovery,
    /// Its recovery took every logged line for newer than its page in a buffer.
    BufferOrderOverlooked = "buffer_order_overlooked" in Recovery,
    /// Its recovery took the slot with the highest number for the newest.
    OrderOverlooked = "order_overlooked" in Recovery,
    /// Its recovery believed that blocks are as on a new device.
    BlocksOverlooked = "blocks_overlooked" in Recovery,
    /// Its recovery overlooked the second half of the log.
    HalfOverlooked = "half_overlooked" in Recovery,
    /// It forgot to record a commit.
    CommitForgotten = "commit_forgotten" in Transactions,
    /// It recorded the commit of a transaction with its first line.
    CommitBeforeData = "commit_before_data" in Transactions,
    /// It answered a commit before it had recorded it.
    AnsweredBeforeCommit = "answered_before_commit" in Transactions,
    /// It freed the entry of the TxLog while lines of the transaction were in the log.
    CommitLostEarly = "commit_lost_early" in Transactions,
    /// Its recovery took every logged line for committed.
    TxLogOverlooked = "tx_log_overlooked" in Recovery,
    /// It dropped the committed copies of lines before it recorded the commit that replaces them.
    FallbackBeforeCommit = "fallback_before_commit" in Transactions,
    /// A line of an open transaction that moved to the other half lost its name.
    MigratedWithoutName = "migrated_without_name" in Transactions,
    /// Its compaction took the newest copy of a line, committed or not.
    OpenCompacted = "open_compacted" in Transactions,
    /// It freed the entry of the TxLog when compaction took up the first line of the transaction.
    CommitLostInCompaction = "commit_lost_in_compaction" in Transactions,
    /// It never freed an entry of the TxLog.
    CommitKept = "commit_kept" in Transactions,
    /// An abort left the lines of the transaction in the log.
    AbortKeptLines = "abort_kept_lines" in Transactions,
    /// It let a transaction reserve room and did not keep it.
    ReservationForgotten = "reservation_forgotten" in Transactions,
    /// Its recovery numbered the entries of the TxLog anew.
    TxLogRenumbered = "tx_log_renumbered" in Recovery,
    /// A trimmed page stayed mapped.
    TrimForgotten = "trim_forgotten" in Trims,
    /// The logged lines of a trimmed page stayed in the log.
    TrimKeptLog = "trim_kept_log" in Trims,
    /// Filling a frame from flash, it did not put the logged lines over the page.
    FillUnmerged = "fill_unmerged" in Copies,
    /// Filling a frame from flash, it put the page over lines written since it asked for it.
    FillOverwrites = "fill_overwrites" in Copies,
    /// Lines that left the log were not put into the frame of a page that was being fetched.
    FetchUnmerged = "fetch_unmerged" in Copies,
    /// Its compaction programmed zeroes for the lines that were not in the log.
    RestForgotten = "rest_forgotten" in Copies,
    /// It looked the older half of the log up first.
    ReadFromStaleSlot = "read_from_stale_slot" in Copies,
    /// It did not look for a page in the buffers.
    BufferUnseen = "buffer_unseen" in Copies,
    /// Of two buffers of a page it read the older one.
    OlderBufferFound = "older_buffer_found" in Copies,
    /// The bytes of a dirty frame did not reach the buffer from which they were programmed.
    EvictedUnwritten = "evicted_unwritten" in Copies,
    /// Its garbage collection programmed a buffer that it had not filled.
    MoveUnfilled = "move_unfilled" in Copies,
    /// A line of an open transaction that moved to the other half left its bytes behind.
    MigratedWithoutBytes = "migrated_without_bytes" in Copies,
    /// It answered none but the first of those who waited for a page.
    WaiterForgotten = "waiter_forgotten" in Copies,
    /// It did not record an erase.
    ErasedForgotten = "erased_forgotten" in Flash,
    /// It did not record which pages its garbage collection was about to program.
    MoveBegunForgotten = "move_begun_forgotten" in Flash,
    /// Of two programs of a page the one that ended last won.
    OvertakenMapped = "overtaken_mapped" in Flash,
    /// A commit left what its lines replace in the log.
    FallbackKept = "fallback_kept" in Transactions,
    /// Its recovery programmed a block from the last page on that had begun.
    BegunUnderread = "begun_underread" in Recovery,
    /// Its recovery wrote on in a block of which a program had failed.
    CondemnedOverlooked = "condemned_overlooked" in Recovery,
    /// Without a battery, it answered a flush before the last page was mapped.
    FlushAnsweredEarly = "flush_answered_early" in Promises,
    /// Without a battery, it answered a page that is written through before it was mapped.
    ThroughAnsweredEarly = "through_answered_early" in Promises,
    /// It took its buffers for protected without a battery.
    BatteryAssumed = "battery_assumed" in Promises,
    /// It forgot to record a frame that became dirty.
    FramedForgotten = "framed_forgotten" in Frames,
    /// It forgot to record lines that ran ahead of their page, and that the page had come.
    FramedMoreForgotten = "framed_more_forgotten" in Frames,
    /// It recorded a dirty frame before the line was in it.
    FramedBeforeCopy = "framed_before_copy" in Frames,
    /// It forgot that a frame counts no more.
    UnframedForgotten = "unframed_forgotten" in Frames,
    /// It gave a frame up before its page was in a buffer.
    UnframedBeforeBuffered = "unframed_before_buffered" in Frames,
    /// It wrote a line into a frame by writing the whole page anew.
    FrameWrittenWhole = "frame_written_whole" in Frames,
    /// Its recovery overlooked the frames.
    FramesOverlooked = "frames_overlooked" in Recovery,
}

impl Bug {
    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(bug, _)| *bug == self);
        named.map_or("", |(_, name)| name)
    }
}
