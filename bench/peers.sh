#!/usr/bin/env bash
# HostFTL beside what others use, on one steady workload: uniform writes of 8 KiB to a drive of 32 GiB
# of which 74 % are exported, greedy collection, 16 under way. docs/PEERS.md says what each models.
#
# MQSIM, LIBCACHESIM (its cachesim) and FIO name programs, FTLSIM the folder of its Python modules
# ftlsim and getaddr. What is not named is skipped. BENCH_REQUESTS says how many writes.
set -euo pipefail
cd "$(dirname "$0")/.."
hostftl=${HOSTFTL:-$(scripts/cargo.sh where)/hostftl}
requests=${BENCH_REQUESTS:-1000000}
fio=${FIO:-$(command -v fio || true)}
work=$(mktemp -d "${TMPDIR:-/tmp}/hostftl-peers.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Blocks of a plane (BENCH_BLOCKS makes a smaller drive); sectors and bytes of what is exported.
blocks=${BENCH_BLOCKS:-256}
physical=$((8 * 4 * 2 * blocks * 256))
exported=$((physical * 74 / 100))

# measured COMMAND…: runs it; seconds of processor time and MiB of memory go to $work/cost. What else
# the machine does then changes little.
measured() {
    python3 - "$work/cost" "$@" <<'PY'
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{used.ru_utime + used.ru_stime:.2f} {used.ru_maxrss / 1024:.0f}\n")
sys.exit(status if status >= 0 else 128 - status)
PY
}

# line NAME WHAT LOST WAF: a line of the table, with the cost of the run before. The rate is of the
# requests that were served.
line() {
    local seconds memory served=$requests
    [[ $3 =~ ^-?[0-9]+$ ]] && served=$((requests - $3))
    read -r seconds memory <"$work/cost"
    awk -v s="$seconds" -v r="$served" -v head="$1 | $2" -v tail="$memory MiB | $3 | $4" 'BEGIN {
        printf "| %s | %.1f s | %.3f M/s | %s |\n", head, s, r / (s > 0 ? s : 1) / 1e6, tail }'
}

skipped() {
    echo "SKIP peers: $1 is not there: name it with $2=" | tee -a "${HOSTFTL_SKIPPED:-/dev/null}" >&2
}

cat >"$work/drive.xml" <<XML
<Execution_Parameter_Set>
<Host_Parameter_Set>
<PCIe_Lane_Bandwidth>2.0</PCIe_Lane_Bandwidth><PCIe_Lane_Count>4</PCIe_Lane_Count>
<Enable_ResponseTime_Logging>false</Enable_ResponseTime_Logging>
</Host_Parameter_Set>
<Device_Parameter_Set>
<Seed>1</Seed><Enabled_Preconditioning>true</Enabled_Preconditioning><Memory_Type>FLASH</Memory_Type>
<HostInterface_Type>NVME</HostInterface_Type><IO_Queue_Depth>1024</IO_Queue_Depth>
<Queue_Fetch_Size>512</Queue_Fetch_Size><Caching_Mechanism>ADVANCED</Caching_Mechanism>
<Data_Cache_Sharing_Mode>SHARED</Data_Cache_Sharing_Mode>
<Data_Cache_Capacity>8388608</Data_Cache_Capacity>
<Data_Cache_DRAM_Row_Size>8192</Data_Cache_DRAM_Row_Size>
<Data_Cache_DRAM_Data_Rate>800</Data_Cache_DRAM_Data_Rate>
<Data_Cache_DRAM_Data_Busrt_Size>4</Data_Cache_DRAM_Data_Busrt_Size>
<Data_Cache_DRAM_tRCD>13</Data_Cache_DRAM_tRCD><Data_Cache_DRAM_tCL>13</Data_Cache_DRAM_tCL>
<Data_Cache_DRAM_tRP>13</Data_Cache_DRAM_tRP><Address_Mapping>PAGE_LEVEL</Address_Mapping>
<Ideal_Mapping_Table>true</Ideal_Mapping_Table><CMT_Capacity>2097152</CMT_Capacity>
<CMT_Sharing_Mode>SHARED</CMT_Sharing_Mode><Plane_Allocation_Scheme>CWDP</Plane_Allocation_Scheme>
<Transaction_Scheduling_Policy>OUT_OF_ORDER</Transaction_Scheduling_Policy>
<Overprovisioning_Ratio>0.26</Overprovisioning_Ratio><GC_Exec_Threshold>0.05</GC_Exec_Threshold>
<GC_Block_Selection_Policy>GREEDY</GC_Block_Selection_Policy>
<Use_Copyback_for_GC>false</Use_Copyback_for_GC><Preemptible_GC_Enabled>false</Preemptible_GC_Enabled>
<GC_Hard_Threshold>0.005</GC_Hard_Threshold>
<Dynamic_Wearleveling_Enabled>false</Dynamic_Wearleveling_Enabled>
<Static_Wearleveling_Enabled>false</Static_Wearleveling_Enabled>
<Static_Wearleveling_Threshold>100</Static_Wearleveling_Threshold>
<Prefered_suspend_erase_time_for_read>700000</Prefered_suspend_erase_time_for_read>
<Preferred_suspend_erase_time_for_write>700000</Preferred_suspend_erase_time_for_write>
<Preferred_suspend_write_time_for_read>100000</Preferred_suspend_write_time_for_read>
<Flash_Channel_Count>8</Flash_Channel_Count><Flash_Channel_Width>1</Flash_Channel_Width>
<Channel_Transfer_Rate>333</Channel_Transfer_Rate><Chip_No_Per_Channel>4</Chip_No_Per_Channel>
<Flash_Comm_Protocol>NVDDR2</Flash_Comm_Protocol>
<Flash_Parameter_Set>
<Flash_Technology>MLC</Flash_Technology><CMD_Suspension_Support>NONE</CMD_Suspension_Support>
<Page_Read_Latency_LSB>75000</Page_Read_Latency_LSB><Page_Read_Latency_CSB>75000</Page_Read_Latency_CSB>
<Page_Read_Latency_MSB>75000</Page_Read_Latency_MSB>
<Page_Program_Latency_LSB>750000</Page_Program_Latency_LSB>
<Page_Program_Latency_CSB>750000</Page_Program_Latency_CSB>
<Page_Program_Latency_MSB>750000</Page_Program_Latency_MSB>
<Block_Erase_Latency>3800000</Block_Erase_Latency><Block_PE_Cycles_Limit>10000</Block_PE_Cycles_Limit>
<Suspend_Erase_Time>700000</Suspend_Erase_Time><Suspend_Program_Time>100000</Suspend_Program_Time>
<Die_No_Per_Chip>1</Die_No_Per_Chip><Plane_No_Per_Die>2</Plane_No_Per_Die>
<Block_No_Per_Plane>$blocks</Block_No_Per_Plane><Page_No_Per_Block>256</Page_No_Per_Block>
<Page_Capacity>8192</Page_Capacity><Page_Metadat_Capacity>448</Page_Metadat_Capacity>
</Flash_Parameter_Set>
</Device_Parameter_Set>
</Execution_Parameter_Set>
XML

cat >"$work/work.xml" <<XML
<MQSim_IO_Scenarios>
<IO_Scenario>
<IO_Flow_Parameter_Set_Synthetic>
<Priority_Class>HIGH</Priority_Class>
<Device_Level_Data_Caching_Mode>TURNED_OFF</Device_Level_Data_Caching_Mode>
<Channel_IDs>0,1,2,3,4,5,6,7</Channel_IDs><Chip_IDs>0,1,2,3</Chip_IDs>
<Die_IDs>0</Die_IDs><Plane_IDs>0,1</Plane_IDs>
<Initial_Occupancy_Percentage>100</Initial_Occupancy_Percentage>
<Working_Set_Percentage>100</Working_Set_Percentage>
<Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type><Read_Percentage>0</Read_Percentage>
<Address_Distribution>RANDOM_UNIFORM</Address_Distribution>
<Percentage_of_Hot_Region>0</Percentage_of_Hot_Region>
<Generated_Aligned_Addresses>true</Generated_Aligned_Addresses>
<Address_Alignment_Unit>16</Address_Alignment_Unit>
<Request_Size_Distribution>FIXED</Request_Size_Distribution>
<Average_Request_Size>16</Average_Request_Size><Variance_Request_Size>0</Variance_Request_Size>
<Seed>798</Seed><Average_No_of_Reqs_in_Queue>16</Average_No_of_Reqs_in_Queue>
<Stop_Time>0</Stop_Time><Total_Requests_To_Generate>$requests</Total_Requests_To_Generate>
</IO_Flow_Parameter_Set_Synthetic>
</IO_Scenario>
</MQSim_IO_Scenarios>
XML

hostftl_run() {
    local rows=$work/rows.json said
    measured "$hostftl" --json compare "$work/work.xml:capacity=$((exported * 8192))" \
        --drive "$work/drive.xml:write_buffer_kib=0" --layers none --export 100% --warm steady \
        --closed-loop 16 --threads 1 >"$rows" 2>"$work/hostftl.log"
    said=$(python3 - "$rows" "$requests" <<'PY'
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
assert row["conserved"]
print(int(sys.argv[2]) - row["requests"], f'{row["waf_total"]:.3f}')
PY
    )
    # shellcheck disable=SC2086 # two words
    line HostFTL "timed; ageing to a steady state is in the time" $said
}

mqsim_run() {
    local said status=0
    measured "$MQSIM" -i "$work/drive.xml" -w "$work/work.xml" >"$work/mqsim.log" 2>&1 || status=$?
    said=$(python3 - "$work/work_scenario_1.xml" "$requests" <<'PY' 2>/dev/null
import sys, xml.etree.ElementTree as tree
root, asked = tree.parse(sys.argv[1]).getroot(), int(sys.argv[2])
flow, ftl = next(root.iter("Host.IO_Flow")), next(root.iter("SSDDevice.FTL"))
done = float(flow.find("Bytes_Transferred").text) / 8192
runs = int(ftl.get("Total_GC_Executions"))
# Without a run the mean is no number.
moved = runs * float(ftl.get("Average_Page_Movement_For_GC")) if runs else 0
print(f"{asked - done:.0f} {(done + moved) / done:.3f}")
PY
    ) || said="$requests none"
    # shellcheck disable=SC2086 # two words
    line MQSim "timed; its preconditioning is in the time; status $status" $said
}

cat >"$work/greedy.py" <<'PY'
# The same steady workload for ftlsim: one greedy pool, pages written once in order, then at random
# until they were overwritten three times, then what is counted.
import sys
import ftlsim
import getaddr

exported, physical, requests = map(int, sys.argv[1:])
pages = 256
ftl = ftlsim.ftl(physical // pages, pages)
ftl.minfree = ftl.maxfree = 3
ftl.get_input_pool = ftlsim.cvar.write_select_first
ftl.get_pool_to_clean = ftlsim.cvar.clean_select_first
pool = ftlsim.pool(ftl, "greedy", pages)
pool.next_pool = pool
segments = [ftlsim.segment(pages) for _ in range(physical // pages)]
for segment in segments:
    segment.thisown = False
pool.add_segment(segments.pop())
for segment in segments:
    ftl.put_blk(segment)
order = getaddr.seq()
ftl.run(order.handle, exported)
source = getaddr.uniform(exported)
ftl.run(source.handle, 3 * exported)
ftl.ext_writes = ftl.int_writes = 0
ftl.run(source.handle, requests)
print(requests - ftl.ext_writes, "%.3f" % (ftl.int_writes / ftl.ext_writes))
PY

ftlsim_run() {
    local said
    measured env PYTHONPATH="$FTLSIM" python3 "$work/greedy.py" "$exported" "$physical" "$requests" \
        >"$work/ftlsim.log"
    said=$(tail -n 1 "$work/ftlsim.log")
    # shellcheck disable=SC2086 # two words
    line ftlsim "counts only; three overwrites before are in the time" $said
}

libcachesim_run() {
    local said
    "$hostftl" trace synth "$work/t.csv" --workload \
        "uniform:size=8k,span=$((exported * 8192)),count=$requests" >/dev/null
    # It leaves a file where it runs.
    measured env -C "$work" "$(realpath "$LIBCACHESIM")" "$work/t.csv" csv lru 100000 --ignore-obj-size 1 --num-thread 1 \
        -t "time-col=1,obj-id-col=3,obj-size-col=4,obj-id-is-num=true,has-header=true,delimiter=," \
        >"$work/cachesim.log" 2>&1
    said=$(grep -oE '[0-9]+ req' "$work/cachesim.log" | tail -n 1 | cut -d ' ' -f 1 || true)
    line libCacheSim "counts hits of a cache of 100,000 pages" \
        "$([ -n "$said" ] && echo $((requests - said)) || echo "not counted")" "no flash"
}

fio_run() {
    measured "$fio" --name=peers --ioengine=null --rw=randwrite --bs=8k --size=$((exported * 8192)) \
        --number_ios="$requests" --norandommap --iodepth=16 --thread --output-format=json \
        --output="$work/fio.json"
    line fio "makes the requests for an engine that does nothing" \
        "$(python3 -c "import json,sys; print($requests - json.load(open(sys.argv[1]))['jobs'][0]['write']['total_ios'])" "$work/fio.json")" \
        "no flash"
}

echo "$(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(uname -sr), $(date -I)"
echo "$requests uniform writes of 8 KiB, $exported of $physical pages exported, greedy, 16 under way"
echo
echo "| | what runs | processor time | requests a second of it | memory | lost | WAF |"
echo "|---|---|---|---|---|---|---|"
hostftl_run
if [ -n "${MQSIM:-}" ]; then mqsim_run; else skipped MQSim MQSIM; fi
if [ -n "${FTLSIM:-}" ]; then ftlsim_run; else skipped ftlsim FTLSIM; fi
if [ -n "${LIBCACHESIM:-}" ]; then libcachesim_run; else skipped libCacheSim LIBCACHESIM; fi
if [ -n "$fio" ]; then fio_run; else skipped fio FIO; fi
