// SPDX-License-Identifier: MIT
// The command as real processes: signals at bad moments, and kill -9.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "belfry/core/delay.h"
#include "belfry/core/philox.h"
#include "belfry/tests/apps/cli.h"

#ifdef BELFRY_COMMAND

using namespace belfry;
using namespace belfry::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// `belfry train ...` with its output in a file.
class Child {
 public:
  Child(const CliFolder& f, std::vector<std::string> arguments) : log_(f.folder / "log.txt") {
    arguments.insert(arguments.begin(), {BELFRY_COMMAND, "train", f.path()});
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    fs::remove(log_);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    if (std::freopen(log_.c_str(), "w", stdout) != nullptr) ::dup2(::fileno(stdout), 2);
    ::execv(BELFRY_COMMAND, argv.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ > 0) signal(SIGKILL), wait();
  }
  void signal(int number) const { ::kill(pid_, number); }
  // The exit code, or -signal.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  bool until(const std::function<bool()>& ready) const {
    for (const double end = now() + 30; now() < end; delay(0.0005))
      if (ready()) return true;
    return false;
  }
  std::string log() const { return read_text(log_); }

 private:
  std::string log_;
  ::pid_t pid_ = -1;
};

bool unfinished(const std::string& out) {
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(out, status))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

std::string model_of(const std::string& out, std::int64_t update) {
  return read_text(checkpoint_path(out, update) + "/model.safetensors");
}

std::string straight(const std::vector<std::string>& keys, std::int64_t update) {
  const CliFolder f;
  std::vector<std::string> arguments{"train", f.path()};
  arguments.insert(arguments.end(), keys.begin(), keys.end());
  REQUIRE(run_cli(arguments).code == 0);
  return model_of(f.out(), update);
}

}  // namespace

TEST_CASE("B46 processes: a signal during a save: exit code, one checkpoint more, no loss") {
  const std::vector<std::string> keys{"--set", "model.hidden=[3000,600]", "--set", "epochs=6",
                                      "--set", "checkpoint.every=2u",     "--set", "log.every=1"};
  for (const auto& [number, code] :
       std::vector<std::pair<int, int>>{{SIGTERM, 143}, {SIGINT, 130}, {SIGHUP, 129}}) {
    const CliFolder f;
    Child child(f, keys);
    REQUIRE(child.until([&] { return unfinished(f.out()); }));
    child.signal(number);
    const int got = child.wait();
    CAPTURE(child.log());
    CHECK(got == code);
    CHECK_FALSE(unfinished(f.out()));
    const std::string newest = newest_checkpoint(f.out(), false, {});
    CHECK_FALSE(newest.empty());
    CHECK_THAT(child.log(), Contains("stopped: SIG"));
  }
}

TEST_CASE("B46 processes: a signal during an evaluation, and two at once; resuming loses nothing",
          "[slow]") {
  std::vector<std::string> keys{"--set", "epochs=40", "--set", "checkpoint.every=1000u"};
  const std::string expected = straight(keys, 160);
  const CliFolder f;
  write_text(f.folder / "same.csv", read_text(f.folder / "data.csv"));
  f.config("", "", "[validation]\nfile = \"same.csv\"\nevery = \"1u\"");
  {
    Child child(f, keys);
    REQUIRE(child.until(
        [&] { return child.log().find("validation at update 3:") != std::string::npos; }));
    child.signal(SIGTERM);
    CHECK(child.wait() == 143);
    CHECK(list_checkpoints(f.out()).size() == 1);
  }
  {
    keys.emplace_back("--resume");
    Child child(f, keys);
    REQUIRE(child.until([&] { return child.log().find("resumed") != std::string::npos; }));
    child.signal(SIGINT);
    child.signal(SIGINT);
    const int code = child.wait();
    CHECK((code == 130 || code == -SIGINT));
    newest_checkpoint(f.out(), false, {});
  }
  CHECK(run_cli({"train", f.path(), "--set", "epochs=40", "--resume"}).code == 0);
  CHECK(model_of(f.out(), 160) == expected);
}

TEST_CASE("kill -9 at 50 random moments with a checkpoint each update: nothing is ever lost",
          "[slow]") {
  const std::vector<std::string> keys{"--set", "epochs=8",          "--set", "checkpoint.every=1u",
                                      "--set", "checkpoint.keep=2", "--set", "log.every=1"};
  const std::string expected = straight(keys, 32);
  REQUIRE_FALSE(expected.empty());
  const Philox philox = philox_key(20, Purpose::test);
  int killed = 0, before_first = 0, in_save = 0, ended = 0;
  std::int64_t least = 32, most = 0;
  for (std::uint32_t i = 0; killed < 50 && i < 200; ++i) {
    const CliFolder f;
    Child child(f, keys);
    // Once a random update's checkpoint shows, and a random moment more.
    const Philox::Words w = philox(i, 0, 0, 0);
    const auto aim = static_cast<std::int64_t>(w.v[0] % 32);
    REQUIRE(child.until([&] {
      const std::vector<std::int64_t> all = list_checkpoints(f.out());
      return aim == 0 || (!all.empty() && all.back() >= aim);
    }));
    delay((aim == 0 ? 0.2 : 0.03) * static_cast<double>(unit_float(w.v[1])));
    child.signal(SIGKILL);
    if (child.wait() != -SIGKILL) {
      ++ended;
      continue;
    }
    ++killed;
    CAPTURE(i, killed);
    in_save += unfinished(f.out()) ? 1 : 0;
    const std::string newest = newest_checkpoint(f.out(), false, {});
    std::int64_t update = 0;
    if (newest.empty()) {
      ++before_first;
    } else {
      update = verify_checkpoint(newest).clocks.attempts;
      least = std::min(least, update);
      most = std::max(most, update);
    }
    std::vector<std::string> arguments{"train", f.path(), "--resume"};
    arguments.insert(arguments.end(), keys.begin(), keys.end());
    const CliResult rest = run_cli(arguments);
    CAPTURE(rest.err);
    REQUIRE(rest.code == 0);
    REQUIRE(model_of(f.out(), 32) == expected);
    if (update == 32) continue;  // nothing was left to train, so nothing was saved and pruned
    CHECK_FALSE(unfinished(f.out()));
    CHECK(list_checkpoints(f.out()) == std::vector<std::int64_t>{31, 32});
  }
  std::printf(
      "kill -9: %d kills, %d of them in a save, %d before the first one, at updates %lld to %lld; "
      "%d runs had ended; all resumed to the bits of the unbroken run\n",
      killed, in_save, before_first, static_cast<long long>(least), static_cast<long long>(most),
      ended);
  CHECK(killed == 50);
}

#endif
