-- Single points for wrk in the line protocol of InfluxDB: the same tag as a report has, another value each time.

local count = 0

function init()
  wrk.method, wrk.path = "POST", os.getenv("RETICENT_PATH")
end

function request()
  count = count + 1
  return wrk.format(nil, nil, nil, "app_usage,os=linux editor_seconds=" .. count % 1000 .. "i")
end
