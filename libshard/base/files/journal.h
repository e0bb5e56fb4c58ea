// The journal of a packing run: which tensors of which outputs are complete, and their digests.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"

namespace moepack {

inline constexpr uint64_t kMaxJournal = uint64_t{1} << 30;  // the most that is read

// Appends one line per finished tensor; several threads may append at the same time.
class Journal {
 public:
  // Opens the journal that StagingDirectory made (its first line is the identity of the run).
  static Result<Journal> Open(const InsideDirectory& directory, const std::string& name);

  // The file's contents when it was opened: for each output the digests of its first tensors,
  // without gaps. A truncated or out-of-order line ends an output's list.
  const std::vector<std::vector<std::string>>& finished() const { return finished_; }

  Status Add(size_t output, size_t tensor, std::string_view xxh3);

 private:
  Journal() = default;
  Status Append(std::string_view line);

  fs::path path_;
  Descriptor fd_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::vector<std::vector<std::string>> finished_;
};

}  // namespace moepack
