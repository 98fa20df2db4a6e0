// SPDX-License-Identifier: Apache-2.0
#include "env/s3/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "env/memory_file_system.h"

namespace cairn::env {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class S3SettingsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, std::string_view text) {
    ASSERT_TRUE(CreateDirectories(&files_, path.substr(0, path.rfind('/')), false).ok());
    Result<std::unique_ptr<WritableFile>> file = files_.CreateFile(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(text).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  EnvironmentLookup Environment() {
    return [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
  }
  Result<S3Credentials> Credentials() { return FindS3Credentials(&files_, Environment(), nullptr); }
  Result<S3Location> Location(const std::string& rest) {
    return ResolveS3Uri("s3://" + rest, &files_, Environment());
  }

  MemoryFileSystem files_;
  std::map<std::string, std::string> variables_{{"HOME", "/home/me"}};
};

TEST_F(S3SettingsTest, TheEnvironmentComesBeforeTheFiles) {
  Write("/home/me/.aws/credentials",
        "[default]\naws_access_key_id = file\naws_secret_access_key=s\n");
  EXPECT_EQ(Credentials()->access_key, "file");
  variables_["AWS_ACCESS_KEY_ID"] = "env";
  variables_["AWS_SECRET_ACCESS_KEY"] = "secret";
  variables_["AWS_SESSION_TOKEN"] = "token";
  Result<S3Credentials> found = Credentials();
  EXPECT_EQ(found->access_key, "env");
  EXPECT_EQ(found->secret_key, "secret");
  EXPECT_EQ(found->session_token, "token");
}

TEST_F(S3SettingsTest, TheProfileInUseIsTakenFromEitherFile) {
  Write("/home/me/.aws/credentials",
        "# comment\n[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
        "[work]\n aws_nested = x\naws_access_key_id = c\naws_secret_access_key = d=e\n");
  Write("/home/me/.aws/config",
        "[profile other]\naws_access_key_id = f\naws_secret_access_key = g\nregion = eu-west-1\n");
  variables_["AWS_PROFILE"] = "work";
  EXPECT_EQ(Credentials()->secret_key, "d=e");
  variables_["AWS_PROFILE"] = "other";
  EXPECT_EQ(Credentials()->access_key, "f");
  EXPECT_EQ(Location("bucket")->region, "eu-west-1");
}

TEST_F(S3SettingsTest, NoCredentialsSaysWhereWasLooked) {
  const Status none = Credentials().status();
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none.ToString(), HasSubstr("/home/me/.aws/credentials"));
  EXPECT_THAT(none.ToString(), HasSubstr("AWS_ACCESS_KEY_ID"));
  variables_["AWS_ACCESS_KEY_ID"] = "env";
  EXPECT_THAT(Credentials().status().ToString(), HasSubstr("no secret key"));
}

TEST_F(S3SettingsTest, AmazonIsTheDefaultServer) {
  variables_["AWS_REGION"] = "eu-central-1";
  Result<S3Location> location = Location("my-bucket/a/b/");
  ASSERT_TRUE(location.ok());
  EXPECT_EQ(location->endpoint, "https://s3.eu-central-1.amazonaws.com");
  EXPECT_FALSE(location->path_style);
  EXPECT_EQ(location->prefix, "a/b");
  EXPECT_EQ(location->ToString(), "s3://my-bucket/a/b");
  EXPECT_TRUE(Location("my.bucket")->path_style);
}

TEST_F(S3SettingsTest, AParameterComesBeforeTheEnvironment) {
  variables_["AWS_ENDPOINT_URL"] = "http://elsewhere:1";
  EXPECT_EQ(Location("b")->endpoint, "http://elsewhere:1");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://elsewhere:2/";
  EXPECT_EQ(Location("b")->endpoint, "http://elsewhere:2");
  Result<S3Location> location =
      Location("b?endpoint=http://127.0.0.1:9&path_style=false&anonymous=true");
  ASSERT_TRUE(location.ok());
  EXPECT_EQ(location->endpoint, "http://127.0.0.1:9");
  EXPECT_FALSE(location->path_style);
  EXPECT_TRUE(location->anonymous);
}

TEST_F(S3SettingsTest, ValuesWithoutAMeaningAreRefused) {
  EXPECT_THAT(Location("").status().ToString(), HasSubstr("s3://BUCKET/PREFIX"));
  EXPECT_THAT(Location("a b/c").status().ToString(), HasSubstr("no bucket name"));
  EXPECT_THAT(Location("b?endpoint=localhost:1").status().ToString(), HasSubstr("http://"));
  EXPECT_THAT(Location("b?anonymous=yes").status().ToString(), HasSubstr("true or false"));
  EXPECT_THAT(Location("b?secret=x").status().ToString(), HasSubstr("it takes endpoint"));
  EXPECT_THAT(Location("b?region=a&region=b").status().ToString(), HasSubstr("twice"));
}

}  // namespace
}  // namespace cairn::env
