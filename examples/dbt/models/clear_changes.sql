select plan, metric, label, bucket, segment, start_time, baseline_start_time, difference, lower, upper, confidence
from {{ source('reticent', 'changes') }}
where every = 'week' and against = '4-weeks' and clear
