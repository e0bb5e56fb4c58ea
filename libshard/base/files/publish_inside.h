// Outputs that are directories already when a run begins: those that are free, and publishing file
// by file into one, because it cannot be replaced with a rename. Such are mount points (a volume of
// a container), and on overlayfs directories of a lower layer.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"

namespace moepack {

// The name of an output's staging directory inside that output, without kPartialMark.
inline constexpr const char* kInsideName = ".moepack";
// The record of a publication, in the staging directory.
inline constexpr const char* kPublishingName = ".publishing";

// Whether an entry of an output's directory is what an unfinished run keeps there.
bool IsUnfinishedRun(const InsideDirectory::Entry& entry);
// Whether it is no part of the output: an unfinished run, and in a mount point the lost+found of
// its file system.
Result<bool> IsBesideOutput(const fs::path& output, const InsideDirectory::Entry& entry);
// Whether a file of an output may not have this name, because it would lie in such a directory.
bool IsKeptName(std::string_view name);
// What is directly in an output's directory, and its files with those of all subdirectories,
// without what is beside the output.
Result<std::vector<InsideDirectory::Entry>> ListOutput(const InsideDirectory& output);
Result<std::vector<std::string>> ListOutputFiles(const InsideDirectory& output);

// kInvalidArgument if a file or a directory is mounted inside the output: neither can be removed,
// so the output cannot be replaced.
Status CheckHoldsNoMount(const InsideDirectory& output);

// Whether an output may be written at `path` without replacing anything: nothing is there, or a
// directory that is empty but for what is beside the output, or one into which a run that was
// killed was publishing. A link is never free.
Result<bool> IsFreeOutput(const fs::path& path);

// Whether the output at `target` is written inside that directory: if it is a mount point, empty or
// the current directory, if an unfinished run is there, or if nothing can be written beside it.
Result<bool> IsWrittenInside(const fs::path& target);

// A name for scratch of a run that writes `target`, on the same file system: `<target>.<word>`, or
// a name inside the target if that is where it is written.
Result<fs::path> ScratchName(const fs::path& target, std::string_view word);

// The staging directory, the files in it that are to be published, and the output.
struct InsidePlaces {
  const InsideDirectory& root;
  const InsideDirectory& files;
  const InsideDirectory& target;
};

// Replaces the files of the target, which the caller has checked, by the staged ones. First of all
// a record in `root` says which files these are. Then the `marks`, without which nothing reads the
// output, are removed in their order, then the other old files; then the new files get their names,
// those in `marks` last and in the opposite order. So nothing that looks finished is there in
// between. Each step is on the disk before the next one.
Status PublishInside(const InsidePlaces& places, const std::vector<std::string>& marks);

// Takes back what a PublishInside that was killed has done: new files return to the staging
// directory, where their run resumes, and what is left of the old ones, which may not be complete,
// is removed. A file counts only if it is still the one in the record, so nothing else is touched.
// The output stays as it is while it is the old one, and once all new files have their names. Then
// the record is removed.
Status MendPublishing(const InsideDirectory& root, const InsideDirectory& target,
                      const std::string& files_name);

}  // namespace moepack
