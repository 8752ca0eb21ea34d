# What `make e2e` runs on real file systems and on ours: the same commands of the same busybox.
# Sourced with the file system as working directory. $PATTERN is a file of 32 MiB that is not on it;
# `everything` makes all of the file system durable. Each program has a part that is not measured,
# after which the file system is mounted anew, and one that is.

PROGRAMS="create append overwrite datasync mkdir rmdir delete stream"

# Writes $3 blocks of 4 KiB to file $1 at block $2, with what else dd is to do in $4.
put() {
    dd if="$PATTERN" of="$1" bs=4k count="$3" seek="$2" conv="notrunc$4" 2>/dev/null
}

# Files of 4 KiB, each synced: Filebench's createfiles with fsync.
prepare_create() {
    for folder in 0 1 2 3 4 5 6 7 8 9; do mkdir "d$folder"; done
}
run_create() {
    for number in $(seq 500); do put "d$((number % 10))/f$number" 0 1 ,fsync; done
}

# A mail server's files: one goes, one comes with 8 KiB, one grows by 8 KiB; both are synced.
prepare_append() {
    for number in $(seq 200); do put "f$number" 0 4 ""; done
}
run_append() {
    for number in $(seq 200); do
        rm "f$number"
        put "n$number" 0 2 ,fsync
        put "n$((number / 2 + 1))" 2 2 ,fsync
    done
}

# A page of a file anew, anywhere, then fsync.
prepare_overwrite() {
    put base 0 2048 ""
}
run_overwrite() {
    for number in $(seq 500); do put base "$((number * 617 % 2048))" 1 ,fsync; done
}

# The same with fdatasync.
prepare_datasync() {
    put base 0 2048 ""
}
run_datasync() {
    for number in $(seq 500); do
        put base "$((number * 617 % 2048))" 1 ""
        sync -d base
    done
}

# Directories, a hundred in each; everything is synced after each hundred.
make_directories() {
    for folder in 0 1 2 3 4 5 6 7 8 9; do
        mkdir "d$folder"
        for number in $(seq 99); do mkdir "d$folder/e$number"; done
        everything
    done
}
prepare_mkdir() {
    :
}
run_mkdir() {
    make_directories
}

# The same directories go again.
prepare_rmdir() {
    make_directories
}
run_rmdir() {
    for folder in 0 1 2 3 4 5 6 7 8 9; do
        for number in $(seq 99); do rmdir "d$folder/e$number"; done
        rmdir "d$folder"
        everything
    done
}

# Files of 16 KiB go; everything is synced after each hundred.
prepare_delete() {
    for folder in 0 1 2 3 4; do
        mkdir "d$folder"
        for number in $(seq 100); do put "d$folder/f$number" 0 4 ""; done
    done
}
run_delete() {
    for folder in 0 1 2 3 4; do
        rm "d$folder"/f*
        everything
    done
}

# A large file in one go, and one fsync.
prepare_stream() {
    :
}
run_stream() {
    dd if="$PATTERN" of=large bs=1M conv=fsync 2>/dev/null
}
