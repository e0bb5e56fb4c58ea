// Decides where a command may write: never over its own input, and over other files only with
// --force.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/result.h"

namespace moepack::manifest {

// Returns kInvalidArgument if `out` is `source`, a directory that contains it, a file inside it, or
// a directory that contains one of `files`, which are also read. Links are followed.
Status CheckOutputApart(const std::string& out, const fs::path& source,
                        const std::vector<fs::path>& files = {});

// Checks the same for a distribution as the input. Nothing may be added to it, so an `out` anywhere
// inside it is kInvalidArgument, too.
Status CheckOutsideDistribution(const std::string& out, const fs::path& distribution,
                                const std::vector<fs::path>& files = {});

// For an output that is not free (IsFreeOutput), returns kInvalidArgument unless `force` is set and
// it is a directory that moepack wrote. A dry run replaces nothing, so it sets `force`. A check
// before long work saves the user's time; the check that counts is the one under the staging lock.
Status CheckReplaceable(const std::string& out, bool force);

// Returns kInvalidArgument if `out` is one of `files`, which are read, or a directory that contains
// one. Links are followed.
Status CheckHoldsNone(const std::string& out, const std::vector<fs::path>& files);

// Recognises directories that moepack wrote: a distribution with the files that its manifest lists,
// or a node with its files, and nothing else but a signature of them (kSignatureFile).
moepack::OwnOutput OwnOutput();

// Whether a directory has a signature of its files in kSignatureFile.
bool HasSignature(const InsideDirectory& directory);
// What to say after a change of its files; `directory` is named by the user.
std::string StaleSignatureWarning(const std::string& directory);
// What to say if it was removed with the files that it signed, and others are there now.
std::string RemovedSignatureWarning(const std::string& directory);

}  // namespace moepack::manifest
