select plan, metric, unit, start_time, value, lower, upper, reports, rounds, rounds_missing, versions
from {{ source('reticent', 'weekly') }}
where kind in ('mean', 'flag') and cast(segment as text) = '{}'
