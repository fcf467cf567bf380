#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cortiq {
namespace {

TEST(ThreadPool, every_index_runs_exactly_once_in_many_loops) {
  for (const size_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t loop = 0; loop < 500; ++loop) {
      const size_t count = loop % 37;
      std::vector<int> seen(count);  // without atomics: an index belongs to one thread, and run() orders all before us
      pool.run(count, [&](size_t i) { ++seen[i]; });
      ASSERT_EQ(std::accumulate(seen.begin(), seen.end(), 0), static_cast<int>(count));
    }
  }
}

TEST(ThreadPool, exceptions_reach_the_caller_and_leave_the_pool_usable) {
  ThreadPool pool(3);
  for (size_t loop = 0; loop < 300; ++loop) {
    std::atomic<size_t> ran{0};
    try {
      pool.run(1000, [&](size_t i) {
        ++ran;
        if (i == 17) throw std::runtime_error("index 17");
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "index 17");
    }
    EXPECT_GE(ran, 1u);
    std::atomic<size_t> again{0};
    pool.run(100, [&](size_t) { ++again; });
    EXPECT_EQ(again, 100u);
  }
}

TEST(ThreadPool, when_all_bodies_throw_one_exception_arrives) {
  ThreadPool pool(4);
  EXPECT_THROW(pool.run(64, [](size_t i) { throw std::out_of_range(std::to_string(i)); }), std::out_of_range);
}

TEST(ThreadPool, callers_from_several_threads_take_turns) {
  ThreadPool pool(2);
  std::atomic<size_t> sum{0};
  std::vector<std::thread> callers;
  for (size_t c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (size_t loop = 0; loop < 200; ++loop) {
        size_t own[10] = {};
        pool.run(10, [&](size_t i) { own[i] = i; });
        for (const size_t value : own) sum += value;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4u * 200 * 45);
}

TEST(ThreadPool, a_loop_on_one_pool_may_start_loops_on_another) {
  ThreadPool outer(2), inner(2);
  std::atomic<size_t> ran{0};
  outer.run(20, [&](size_t) { inner.run(5, [&](size_t) { ++ran; }); });
  EXPECT_EQ(ran, 100u);
}

TEST(ThreadPool, workers_that_slept_wake_up) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 3; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than workers spin
    std::atomic<size_t> ran{0};
    pool.run(50, [&](size_t) { ++ran; });
    EXPECT_EQ(ran, 50u);
  }
}

TEST(ThreadPool, pools_come_and_go_without_having_worked) {
  for (int i = 0; i < 100; ++i) ThreadPool pool(4);
}

TEST(ThreadPool, a_system_without_threads_to_give_is_worked_without) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers need the address space that is taken away here";
#endif
  const auto child = [] {
    ThreadPool pool(4);
    const rlimit none{1, 1};  // what is mapped stays; a new stack is not to be had
    if (::setrlimit(RLIMIT_AS, &none) != 0) std::_Exit(2);
    std::atomic<int> done{0};
    for (int i = 0; i < 3; ++i) pool.run(100, [&](size_t) { ++done; });
    std::_Exit(done == 300 ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST(ThreadPool, an_idle_pool_takes_no_processor_time) {
  ThreadPool pool(8);
  pool.run(100, [](size_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // workers may spin a little after a loop
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 50);
}

// What a busy machine does to a worker, made certain: a signal handler keeps it from running.
std::atomic<bool> held{false}, release{false};
void hold(int) {
  held = true;
  while (!release) {
  }
}

TEST(ThreadPool, a_worker_that_does_not_run_holds_up_no_loop) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer delivers signals late";
#endif
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  const pthread_t caller = pthread_self();
  pthread_t worker{};
  pool.run(2, [&](size_t) {
    if (pthread_equal(pthread_self(), caller) == 0) worker = pthread_self();
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // so that each thread takes one index
  });
  struct sigaction action = {}, old;
  action.sa_handler = hold;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
  ASSERT_EQ(pthread_kill(worker, SIGUSR1), 0);
  while (!held) std::this_thread::yield();
  std::vector<int> seen(100);
  for (int loop = 0; loop < 50; ++loop) pool.run(seen.size(), [&](size_t i) { ++seen[i]; });  // hung before
  EXPECT_EQ(seen, std::vector<int>(100, 50));
  release = true;
  pool.run(seen.size(), [&](size_t i) { ++seen[i]; });
  EXPECT_EQ(seen, std::vector<int>(100, 51));
  sigaction(SIGUSR1, &old, nullptr);
}

double seconds_of_loops(size_t threads) {
  ThreadPool pool(threads);
  const auto start = std::chrono::steady_clock::now();
  for (int loop = 0; loop < 300; ++loop) {
    pool.run(16, [](size_t) {
      volatile double x = 1;
      for (int i = 0; i < 3000; ++i) x = x * 1.0000001;
    });
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(ThreadPool, more_threads_than_processors_keep_half_of_the_rate) {
  const size_t best = usable_threads();
  double ratio = 0;
  for (int attempt = 0; attempt < 10 && ratio < 0.5; ++attempt) {  // other programs disturb one attempt or another
    ratio = std::max(ratio, seconds_of_loops(best) / seconds_of_loops(4 * best));
  }
  EXPECT_GE(ratio, 0.5);
}

TEST(ThreadPool, usable_threads_is_at_least_one_and_at_most_the_machine) {
  EXPECT_GE(usable_threads(), 1u);
  EXPECT_LE(usable_threads(), std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace cortiq
