# SPDX-License-Identifier: MIT
"""Which tests are to notice a mutant, and mutants that none can: for .ci/mutation."""
# Most likely killers first, each until its first failure. Without an order no seed passes: 2 do.
SIM = "BELFRY_SIM_SEEDS=2 test_sim -a "
ENGINE, COLLECTIVES = SIM + '"under any order*"', SIM + '"collectives move*"'
SWEEPS = (SIM + '"each wait of*"', SIM + '"each synchronize*"', SIM + '"every wait of*"',
          SIM + '"each call failed*"')
LIFETIMES = SIM + "[lifetimes]"
# Pinned memory has to be announced there.
SEPARATE = SIM + '"there a group does all*"'
TOWERS, ALLREDUCE, DATA = "test_towers -a ~[slow]", "test_allreduce -a ~[slow]", "test_data -a ~[slow]"
DEVICE = "test_device -a ~[slow]"
ORDERING = (ENGINE, COLLECTIVES, LIFETIMES, *SWEEPS, ALLREDUCE, DATA, TOWERS, DEVICE)
# The CUDA plug-in, and kernels that only GPUs run, in tests of their own.
ON_GPUS = ("device/cuda/", "autodiff/cast.kernel.h", "autodiff/ops/loss/check_labels.kernel.h",
           "autodiff/ops/reduce/column_sum.kernel.h")
CUDA = ("BELFRY_SIM_SEEDS=2 test_cuda -a ~[slow]", 'BELFRY_SIM_SEEDS=1 test_cuda -a "[slow]"')
GPU_TRAINING = 'BELFRY_SIM_SEEDS=2 test_cuda -a "training on GPUs*"'
RECORDED_ON_GPUS = ("BELFRY_TEST_CAPTURE=1 BELFRY_SIM_SEEDS=1 test_engine_on_gpus -a "
                    '"~[given]~[slow]~replicated and lazy*"')
OPS, RULES = 'test_sim -a "every op declares*"', 'test_sim -a "every optimizer rule declares*"'
KERNELS = 'test_sim -a "kernels of *"'
UPDATE, LISTS = 'test_sim -a "an update declares*"', 'test_sim -a "averaging of lists declares*"'
RANGES = {"autodiff": (OPS, UPDATE), "optim": (RULES, UPDATE), "towers": (UPDATE, RULES),
          "allreduce": (UPDATE, LISTS, RULES), "device": (OPS, UPDATE), "data": (UPDATE,)}
LOOPS = SIM + "[loops]"
# By file where something else is nearer than the usual order.
NEAREST = {"data/loader.cpp": (DATA,), "data/reader.cpp": (LIFETIMES, ENGINE),
           "allreduce/transports/threads/comm.cpp": (COLLECTIVES,),
           "allreduce/transports/threads/group_internal.h": (COLLECTIVES,),
           "allreduce/average_gradients.cpp": (LISTS, LIFETIMES, ALLREDUCE),
           "allreduce/state_exchange.cpp": (SEPARATE,),
           "towers/tower_update.cpp": (GPU_TRAINING,),
           "towers/tower_recorded.cpp": (RECORDED_ON_GPUS,),
           "device/loop.cpp": (LOOPS, DEVICE), "device/loop_check.cpp": (DEVICE, LOOPS),
           "device/map_devices.cpp": (LOOPS, DEVICE), "autodiff/to.cpp": (LOOPS,)}
# Of these the ranges too.
NEAREST_RANGES = ("device/loop.cpp", "device/loop_check.cpp")
# Mutants that no test can tell from the product: (file, text of the call, which of them): reason.
EQUIVALENT = {
    ("towers/checkpoint/checkpoint.cpp", "group_.background().wait()", 2):
        "start() waits as well; this one comes before the snapshot, so that only one is in memory",
    ("data/loader.cpp", "context.device(0).main().host_access(Touches().writes(&entry, sizeof entry))", 1):
        "an assertion about the ring's slots: what it finds is the mutants of publish and observe",
    ("data/loader.cpp", ".writes(&entry, sizeof entry)", 1): "the range of that assertion",
    ("allreduce/transports/threads/shared.cpp",
     "device_.main().host_access(Touches().reads(from.raw(), from.bytes()))", 1):
        "an assertion: what it finds is the mutants of the waits that end updates and write()",
    ("allreduce/transports/threads/shared.cpp", ".reads(from.raw(), from.bytes())", 1):
        "the range of that assertion",
    ("device/stream.h", ".reads(host, bytes)", 1):
        "the range of an assertion: what it finds is the mutant of the synchronize before it",
}
