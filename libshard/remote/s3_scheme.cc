#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/open_remote.h"
#include "libshard/remote/s3_tree.h"
#include "libshard/remote/scheme.h"

namespace moepack::remote {
namespace {

std::string DownloadOfBucket(const std::string& address) {
  return Cat("download it first, `",
             ShellCommand({"aws", "s3", "cp", "--recursive", address, "model"}),
             "`, then name the directory model");
}

Result<Source> OpenBucket(const Transport& transport, const std::string& address,
                          const RemoteOptions& options) {
  SHARD_TRY(const std::string_view rest, NameIn(kS3, address));
  SHARD_TRY(const S3Name name, ParseS3Name(rest));
  SHARD_TRY(const S3Settings settings, S3SettingsFromEnvironment(options.endpoint));
  return OpenS3(transport, settings, name);
}

}  // namespace

constinit const Scheme kS3 = {"s3://", "s3://bucket/prefix", DownloadOfBucket, OpenBucket};

}  // namespace moepack::remote
